//! Positions on Earth as scores of sorted sets, and searches around a centre.
//!
//! A score is a cell of a grid: longitude and latitude, 26 bits each, bits interleaved. So near positions mostly have
//! near scores ("geohash"), and a square of the grid is a range of scores. A search covers the square around the centre
//! and its eight neighbours, which are as large as the shape needs, and checks each position there.
//!
//! Every formula is evaluated in Redis's order, so that positions and distances are the same to the last digit.

mod cell;
mod cover;
mod distance;
mod polygon;
#[cfg(test)]
mod tests;

pub use cell::{Area, Cell, LATITUDE_MAX, LONGITUDE_MAX, Position, geohash, integer_of_score};
pub use distance::distance;
pub use polygon::Polygon;

use distance::{Center, latitude_distance};

/// The shape of a search, in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Not farther than this from the centre.
    Circle(f64),
    /// Not farther from the centre than half of these, along the parallel of the position and along a meridian.
    Box {
        /// West to east.
        width: f64,
        /// South to north.
        height: f64,
    },
    /// Between parallels and meridians: the rectangle around a [`Polygon`].
    Area {
        /// The parallels and meridians.
        edges: Area,
        /// From the centre to the farthest corner.
        reach: f64,
    },
}

/// A search around a centre.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    center: Center,
    shape: Shape,
}

impl Search {
    /// A search for positions in a shape around a position.
    pub fn new(center: Position, shape: Shape) -> Self {
        Search { center: Center::new(center), shape }
    }

    /// The squares of the grid to search, in Redis's order, as ranges of scores: from the first to before the second.
    pub fn ranges(&self) -> impl Iterator<Item = (f64, f64)> + use<> {
        cover::cells(self.center.position, self.shape).into_iter().flatten().map(Cell::scores)
    }

    /// The distance of a position from the centre in metres, if it is inside.
    #[inline]
    pub fn find(&self, position: Position) -> Option<f64> {
        let north = latitude_distance(self.center.position.latitude, position.latitude);
        match self.shape {
            Shape::Circle(radius) => {
                // Nothing is nearer than the difference in latitude, but for rounding.
                if north > radius * (1.0 + 1e-9) + 1e-3 {
                    return None;
                }
                let distance = self.center.distance(position);
                (distance <= radius).then_some(distance)
            }
            Shape::Box { width, height } => {
                if north > height / 2.0 {
                    return None;
                }
                let beside = Position { latitude: position.latitude, ..self.center.position };
                if distance(position, beside) > width / 2.0 {
                    return None;
                }
                Some(self.center.distance(position))
            }
            Shape::Area { edges, .. } => {
                let inside = (edges.west..=edges.east).contains(&position.longitude)
                    && (edges.south..=edges.north).contains(&position.latitude);
                inside.then(|| self.center.distance(position))
            }
        }
    }
}
