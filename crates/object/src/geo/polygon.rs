//! Polygons whose corners are positions (Valkey's BYPOLYGON).

use super::cell::{Area, Position};
use super::distance::{Center, to_degrees, to_radians};
use super::{Search, Shape};

/// A polygon of at least three corners. Its sides are straight on a map of longitudes and latitudes.
#[derive(Clone, Debug, PartialEq)]
pub struct Polygon(Vec<Position>);

impl Polygon {
    /// The polygon with these corners; `None`: they are too few.
    pub fn new(corners: Vec<Position>) -> Option<Self> {
        (corners.len() >= 3).then_some(Polygon(corners))
    }

    /// True if a position is inside: a ray from it to the east crosses an odd number of sides.
    pub fn contains(&self, position: Position) -> bool {
        let Position { longitude, latitude } = position;
        let ends = self.0.iter().skip(1).chain(self.0.first());
        let crossed = self.0.iter().zip(ends).filter(|(a, b)| {
            (a.latitude > latitude) != (b.latitude > latitude)
                && longitude
                    < (b.longitude - a.longitude) * (latitude - a.latitude) / (b.latitude - a.latitude) + a.longitude
        });
        crossed.count() % 2 == 1
    }

    /// A search of the rectangle around the polygon, with distances from the middle of its corners.
    pub fn search(&self) -> Search {
        let area = self.area();
        let center = self.center();
        let from = Center::new(center);
        let corners =
            [(area.west, area.south), (area.west, area.north), (area.east, area.south), (area.east, area.north)];
        let distances = corners.map(|(longitude, latitude)| from.distance(Position { longitude, latitude }));
        let reach = distances.into_iter().fold(0.0, f64::max);
        Search { center: from, shape: Shape::Area { edges: area, reach } }
    }

    fn area(&self) -> Area {
        let edge =
            |of: fn(&Position) -> f64, choose: fn(f64, f64) -> f64, first| self.0.iter().map(of).fold(first, choose);
        Area {
            west: edge(|p| p.longitude, f64::min, f64::INFINITY),
            east: edge(|p| p.longitude, f64::max, f64::NEG_INFINITY),
            south: edge(|p| p.latitude, f64::min, f64::INFINITY),
            north: edge(|p| p.latitude, f64::max, f64::NEG_INFINITY),
        }
    }

    /// The middle of the corners on the sphere.
    fn center(&self) -> Position {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for corner in &self.0 {
            let (longitude, latitude) = (to_radians(corner.longitude), to_radians(corner.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let latitude = to_degrees(f64::atan2(z, (x * x + y * y).sqrt()));
        // Corners that surround a pole may have their middle outside of the grid.
        let latitude = latitude.clamp(-super::LATITUDE_MAX, super::LATITUDE_MAX);
        Position { longitude: to_degrees(f64::atan2(y, x)), latitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn polygon(corners: &[(f64, f64)]) -> Polygon {
        let corners = corners.iter().map(|&(longitude, latitude)| Position { longitude, latitude });
        Polygon::new(corners.collect()).unwrap()
    }

    #[test]
    fn two_corners_are_too_few() {
        let corner = Position { longitude: 0.0, latitude: 0.0 };
        assert_eq!(Polygon::new(vec![corner; 2]), None);
    }

    #[test]
    fn what_is_inside() {
        // A square with a notch from the south.
        let notched = polygon(&[(0.0, 0.0), (2.0, 2.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]);
        for (longitude, latitude, inside) in [
            (1.0, 3.0, true),
            (2.0, 2.5, true),
            (2.0, 1.0, false),
            (3.5, 1.0, true),
            (5.0, 3.0, false),
            (-1.0, 3.0, false),
        ] {
            assert_eq!(notched.contains(Position { longitude, latitude }), inside, "{longitude} {latitude}");
        }
    }

    proptest! {
        /// Every position inside is in one of the ranges that a search looks through.
        #[test]
        fn a_search_misses_nothing(
            corners in proptest::collection::vec((-180.0..180.0f64, -85.0..85.0f64), 3..7),
            weights in proptest::collection::vec(0.0..1.0f64, 6),
            scale in prop_oneof![Just(1.0), Just(0.1), Just(0.001)],
        ) {
            let (first_longitude, first_latitude) = corners[0];
            let near = |(longitude, latitude): (f64, f64)| {
                (first_longitude + (longitude - first_longitude) * scale, first_latitude + (latitude - first_latitude) * scale)
            };
            let corners: Vec<_> = corners.into_iter().map(near).collect();
            let polygon = polygon(&corners);
            let sum: f64 = weights.iter().take(corners.len()).sum::<f64>().max(0.01);
            let mean = |of: fn(&(f64, f64)) -> f64| corners.iter().zip(&weights).map(|(c, w)| of(c) * w / sum).sum::<f64>();
            let position = Position { longitude: mean(|c| c.0), latitude: mean(|c| c.1) };
            prop_assume!(Position::new(position.longitude, position.latitude).is_some());
            let position = Position::of_score(position.score());
            prop_assume!(polygon.contains(position));
            let search = polygon.search();
            let score = position.score();
            prop_assert!(search.ranges().any(|(low, high)| (low..high).contains(&score)));
            prop_assert!(search.find(position).is_some());
        }
    }
}
