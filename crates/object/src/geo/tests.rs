use super::*;
use proptest::prelude::*;

fn at(longitude: f64, latitude: f64) -> Position {
    Position::new(longitude, latitude).unwrap()
}

/// From Redis's documentation and a real Redis 7.9.
#[test]
fn numbers_are_those_of_redis() {
    let (palermo, catania) = (at(13.361389, 38.115556), at(15.087269, 37.502669));
    assert_eq!((palermo.score(), catania.score()), (3479099956230698.0, 3479447370796909.0));
    let (palermo, catania) = (Position::of_score(palermo.score()), Position::of_score(catania.score()));
    assert_eq!(palermo, Position { longitude: 13.361389338970184, latitude: 38.1155563954963 });
    assert_eq!(distance(palermo, catania), 166274.15156960032);
    assert_eq!((&geohash(palermo), &geohash(catania)), (b"sqc8b49rny0", b"sqdtr74hyu0"));
    let (east, west) = (at(180.0, LATITUDE_MAX), at(-180.0, -LATITUDE_MAX));
    assert_eq!(east.score(), 13510798882111488.0);
    let (east, west) = (Position::of_score(east.score()), Position::of_score(west.score()));
    assert_eq!(east, Position { longitude: 180.0, latitude: 85.05112878 });
    assert_eq!(west, Position { longitude: -179.99999731779099, latitude: -85.05112751263943 });
    assert_eq!((&geohash(east), &geohash(west)), (b"bp05b5048p0", b"00bh0hbj200"));
}

#[test]
fn any_score_is_a_position() {
    for score in [f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, -3.0, 0.5, 9.3e18, f64::MAX, f64::MIN_POSITIVE] {
        let position = Position::of_score(score);
        assert!(Position::new(position.longitude, position.latitude).is_some(), "{score}");
    }
    assert_eq!(integer_of_score(1e300), i64::MIN);
    assert_eq!(integer_of_score(-3.9), -3);
}

#[test]
fn outside_of_the_map() {
    for (longitude, latitude) in [(180.1, 0.0), (-181.0, 0.0), (0.0, 85.06), (0.0, f64::NAN), (f64::INFINITY, 0.0)] {
        assert_eq!(Position::new(longitude, latitude), None);
    }
}

fn position() -> impl Strategy<Value = Position> {
    let edges = prop_oneof![Just(180.0), Just(-180.0), Just(0.0), Just(179.9999999)];
    let longitude = prop_oneof![4 => -180.0..180.0, 1 => edges];
    // Towards the poles Redis's squares do not cover everything.
    (longitude, -70.0..70.0).prop_map(|(longitude, latitude)| at(longitude, latitude))
}

proptest! {
    #[test]
    fn scores_keep_positions(position in position()) {
        let read = Position::of_score(position.score());
        prop_assert!((read.longitude - position.longitude).abs() < 1e-5);
        prop_assert!((read.latitude - position.latitude).abs() < 1e-5);
        if position.longitude < 180.0 {
            prop_assert_eq!(read.score(), position.score());
        }
    }

    #[test]
    fn any_search_ends(longitude in -180.0..=180.0, latitude in -85.05..=85.05, a in 0.0..1e9, b in 0.0..1e9, tiny: bool) {
        let scale = if tiny { 1e-300 } else { 1.0 };
        for shape in [
            Shape::Circle(a * scale),
            Shape::Circle(f64::INFINITY),
            Shape::Box { width: a * scale, height: b },
            Shape::Box { width: f64::INFINITY, height: f64::INFINITY },
        ] {
            let search = Search::new(at(longitude, latitude), shape);
            for (low, high) in search.ranges() {
                prop_assert!(low < high);
            }
        }
    }

    /// Squares cover the shape: every position of a cloud around the centre is checked.
    #[test]
    fn squares_cover_shapes(
        center in position(),
        radius in prop_oneof![1.0..1000.0, 1000.0..3e6],
        cloud in prop::collection::vec((-1.0..1.0, -1.0..1.0), 40),
    ) {
        let shapes = [Shape::Circle(radius), Shape::Box { width: radius, height: radius * 1.5 }];
        for shape in shapes {
            let search = Search::new(center, shape);
            for &(x, y) in &cloud {
                let degrees = radius / 111_000.0;
                let longitude = center.longitude + x * degrees / center.latitude.to_radians().cos();
                let Some(position) = Position::new(longitude, center.latitude + y * degrees) else { continue };
                let score = position.score();
                let inside = search.find(Position::of_score(score)).is_some();
                let covered = search.ranges().any(|(low, high)| low <= score && score < high);
                // Redis checks only along the parallel of the centre's side if the squares reach far enough.
                let near_pole = position.latitude.abs() > 70.0;
                prop_assert!(covered || !inside || near_pole, "{center:?} {shape:?} {position:?}");
            }
        }
    }

    #[test]
    fn distances_are_metric(a in position(), b in position()) {
        let there = distance(a, b);
        prop_assert!((0.0..=20_020_800.0).contains(&there));
        prop_assert!((there - distance(b, a)).abs() < 1e-6);
        prop_assert!(latitude_distance(a.latitude, b.latitude) <= there + 1e-3);
        prop_assert_eq!(distance(a, a), 0.0);
    }
}
