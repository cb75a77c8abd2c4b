//! The grid: positions to cells and back.

/// Degrees east and west.
pub const LONGITUDE_MAX: f64 = 180.0;
/// Degrees north and south: the square that Mercator's projection shows (EPSG:3857).
pub const LATITUDE_MAX: f64 = 85.05112878;

/// Bits of each coordinate in a score.
const STEPS: u32 = 26;

/// Bits of the longitude in interleaved coordinates; those of the latitude are between them.
const EAST: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// A position, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// East of Greenwich, -180 to 180.
    pub longitude: f64,
    /// North of the equator, within [`LATITUDE_MAX`].
    pub latitude: f64,
}

impl Position {
    /// The position, if the grid covers it.
    pub fn new(longitude: f64, latitude: f64) -> Option<Self> {
        let covered = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        covered.then_some(Position { longitude, latitude })
    }

    /// The middle of the cell that a score names. Any score names one.
    #[inline]
    pub fn of_score(score: f64) -> Self {
        let area = Cell { bits: bits_of_score(score), steps: STEPS }.area();
        let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
        Position {
            longitude: middle(area.west, area.east, LONGITUDE_MAX),
            latitude: middle(area.south, area.north, LATITUDE_MAX),
        }
    }

    /// The score of the cell that the position is in.
    pub fn score(self) -> f64 {
        Cell::around(self, STEPS).bits as f64
    }
}

/// The text of a position as other systems write geohashes: 11 letters of 5 bits, of which Redis knows 52. The grid is
/// that of the standard, with latitudes up to the poles.
pub fn geohash(position: Position) -> [u8; 11] {
    const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let bits = bits_in(position, 90.0, STEPS);
    std::array::from_fn(|i| match 52u32.checked_sub(5 * (i as u32 + 1)) {
        Some(shift) => LETTERS[(bits >> shift) as usize % LETTERS.len()],
        None => LETTERS[0],
    })
}

/// The integer part of a double as x86 processors convert it, and so Redis shows the score of a position.
pub fn integer_of_score(score: f64) -> i64 {
    const END: f64 = -(i64::MIN as f64);
    if (-END..END).contains(&score) { score as i64 } else { i64::MIN }
}

/// ZADD may have set any score. It names the same cell as in Redis (as x86 processors convert doubles to unsigned
/// integers).
#[inline]
fn bits_of_score(score: f64) -> u64 {
    const HALF: f64 = -(i64::MIN as f64);
    if score < HALF { integer_of_score(score) as u64 } else { integer_of_score(score - HALF) as u64 ^ 1 << 63 }
}

/// A square of a grid of 2^steps by 2^steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The coordinates, interleaved; the lowest bit is the latitude's.
    bits: u64,
    /// 1 to 26.
    steps: u32,
}

/// Where the edges of a cell, or of something else on the map, are: in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "four directions")]
pub struct Area {
    pub west: f64,
    pub east: f64,
    pub south: f64,
    pub north: f64,
}

fn bits_in(position: Position, latitude_max: f64, steps: u32) -> u64 {
    let cells = (1u64 << steps) as f64;
    let offset = |degrees: f64, max: f64| ((degrees + max) / (max + max) * cells) as u32;
    spread(offset(position.latitude, latitude_max)) | spread(offset(position.longitude, LONGITUDE_MAX)) << 1
}

impl Cell {
    /// The cell around a position in a grid of so many steps, 1 to 26.
    pub fn around(position: Position, steps: u32) -> Self {
        Cell { bits: bits_in(position, LATITUDE_MAX, steps), steps }
    }

    /// The scores in this cell: from the first to before the second.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS - self.steps);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }

    #[inline]
    pub(super) fn area(self) -> Area {
        let cells = (1u64 << self.steps) as f64;
        let degrees = |number: u32, max: f64| f64::from(number) / cells * (max + max) - max;
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        Area {
            west: degrees(longitude, LONGITUDE_MAX),
            east: degrees(longitude.wrapping_add(1), LONGITUDE_MAX),
            south: degrees(latitude, LATITUDE_MAX),
            north: degrees(latitude.wrapping_add(1), LATITUDE_MAX),
        }
    }

    /// The cell so many cells (-1, 0 or 1) to the east and to the north. The grid has no edges: beyond each is the
    /// other side.
    pub(super) fn neighbour(self, east: i8, north: i8) -> Self {
        let longitude = step(self.bits & EAST, EAST, self.steps, east);
        let latitude = step(self.bits & !EAST, !EAST, self.steps, north);
        Cell { bits: longitude | latitude, ..self }
    }
}

/// Moves one coordinate, whose bits are those of `mask`: the bits between them are filled so that a carry runs through.
fn step(bits: u64, mask: u64, steps: u32, by: i8) -> u64 {
    let unused = u64::BITS - 2 * steps;
    let between = !mask >> unused;
    let moved = match by {
        0 => return bits,
        1.. => bits.wrapping_add(between + 1),
        _ => (bits | between).wrapping_sub(between + 1),
    };
    moved & mask >> unused
}

/// Puts a zero between any two bits.
fn spread(bits: u32) -> u64 {
    const MASKS: [(u32, u64); 5] = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    MASKS.iter().fold(u64::from(bits), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// Takes every other bit.
#[inline]
fn gather(bits: u64) -> u32 {
    const MASKS: [(u32, u64); 6] = [
        (0, 0x5555_5555_5555_5555),
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ];
    MASKS.iter().fold(bits, |bits, (shift, mask)| (bits | bits >> shift) & mask) as u32
}
