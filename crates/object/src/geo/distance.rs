//! Distances on a sphere, by the haversine formula.

use super::Position;

/// Metres: quadratic mean radius of WGS-84's ellipsoid.
pub(super) const EARTH_RADIUS: f64 = 6_372_797.560856;

const RADIANS: f64 = std::f64::consts::PI / 180.0;

pub(super) fn to_radians(degrees: f64) -> f64 {
    degrees * RADIANS
}

pub(super) fn to_degrees(radians: f64) -> f64 {
    radians / RADIANS
}

/// Metres between two positions.
pub fn distance(a: Position, b: Position) -> f64 {
    Center::new(a).distance(b)
}

/// Metres between two latitudes on one meridian.
pub(super) fn latitude_distance(a: f64, b: f64) -> f64 {
    EARTH_RADIUS * (to_radians(b) - to_radians(a)).abs()
}

/// A position from which many distances are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Center {
    pub position: Position,
    longitude: f64,
    latitude: f64,
    latitude_cosine: f64,
}

impl Center {
    pub(super) fn new(position: Position) -> Self {
        let latitude = to_radians(position.latitude);
        Center { position, longitude: to_radians(position.longitude), latitude, latitude_cosine: latitude.cos() }
    }

    #[inline]
    pub(super) fn distance(&self, other: Position) -> f64 {
        let v = ((to_radians(other.longitude) - self.longitude) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance(self.position.latitude, other.latitude);
        }
        let latitude = to_radians(other.latitude);
        let u = ((latitude - self.latitude) / 2.0).sin();
        let a = u * u + self.latitude_cosine * latitude.cos() * v * v;
        // At the other end of the world rounding may make it more than 1, which has no arc.
        2.0 * EARTH_RADIUS * a.sqrt().min(1.0).asin()
    }
}
