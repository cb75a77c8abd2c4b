//! Which squares of which grid cover a shape.

use super::Shape;
use super::cell::{Area, Cell, LATITUDE_MAX, Position};
use super::distance::{EARTH_RADIUS, to_degrees, to_radians};

/// Half the width of Mercator's map in metres.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// The edges around a shape. They may lie beyond those of the map.
fn bounds_of(center: Position, shape: Shape) -> Area {
    let (width, height) = match shape {
        Shape::Area { edges, .. } => return edges,
        Shape::Circle(radius) => (radius, radius),
        Shape::Box { width, height } => (width / 2.0, height / 2.0),
    };
    let Position { longitude, latitude } = center;
    let up = to_degrees(height / EARTH_RADIUS);
    // Degrees of longitude are shortest at the edge that is nearer to a pole.
    let edge = if latitude < 0.0 { latitude - up } else { latitude + up };
    let side = to_degrees(width / EARTH_RADIUS / to_radians(edge).cos());
    Area { west: longitude - side, east: longitude + side, south: latitude - up, north: latitude + up }
}
/// How fine a grid's squares are still as large as the reach of a search, 1 to 26.
fn steps_for(mut reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return 26;
    }
    let mut steps = 1;
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        steps += 1;
    }
    // One for the shape to reach into the neighbours only; near the poles the map is stretched.
    steps -= 2;
    if latitude.abs() > 66.0 {
        steps -= 1;
    }
    if latitude.abs() > 80.0 {
        steps -= 1;
    }
    steps.clamp(1, 26) as u32
}

/// The squares to search: the one around the centre, then its neighbours as far as they can matter, in Redis's order.
pub(super) fn cells(center: Position, shape: Shape) -> [Option<Cell>; 9] {
    debug_assert!(center.latitude.abs() <= LATITUDE_MAX);
    let bounds = bounds_of(center, shape);
    let reach = match shape {
        Shape::Circle(radius) => radius,
        Shape::Area { reach, .. } => reach,
        Shape::Box { width, height } => ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
    };
    let mut steps = steps_for(reach, center.latitude);
    let mut cell = Cell::around(center, steps);
    let too_near = cell.neighbour(0, 1).area().north < bounds.north
        || cell.neighbour(0, -1).area().south > bounds.south
        || cell.neighbour(1, 0).area().east < bounds.east
        || cell.neighbour(-1, 0).area().west > bounds.west;
    if too_near && steps > 1 {
        steps -= 1;
        cell = Cell::around(center, steps);
    }

    let area = cell.area();
    let fine = steps >= 2;
    let (no_south, no_north) = (fine && area.south < bounds.south, fine && area.north > bounds.north);
    let (no_west, no_east) = (fine && area.west < bounds.west, fine && area.east > bounds.east);
    const DIRECTIONS: [(i8, i8); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
    let mut cells = DIRECTIONS.map(|(east, north)| {
        let useless =
            (east > 0 && no_east) || (east < 0 && no_west) || (north > 0 && no_north) || (north < 0 && no_south);
        (!useless).then(|| cell.neighbour(east, north))
    });
    // In a coarse grid neighbours in opposite directions are the same square.
    let mut last = None;
    for cell in cells.iter_mut().skip(1) {
        if cell.is_some() && *cell == last {
            *cell = None;
        } else if cell.is_some() {
            last = *cell;
        }
    }
    cells
}
