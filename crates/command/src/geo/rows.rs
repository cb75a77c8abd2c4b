//! The declarations of the commands of geo.

use super::options::store_key;
use super::{add, read, search};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::spec::{Begin, Find, KeySpec, Row, Spec, flags::*, key_flags::*};

/// The common parts of these rows.
const GEO: Spec = Spec { group: "geo", since: "3.2.0", ..Spec::NEW };
const READ_ONE: &[KeySpec] = &[KeySpec::one(1, RO | ACCESS)];

/// The key behind a word that is searched from argument `from` on.
const fn stored(word: &'static str, from: isize) -> KeySpec {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    KeySpec { begin: Begin::Keyword(word, from), find, flags: OW | UPDATE }
}

const fn row(spec: Spec, run: fn(&mut Ctx<'_>) -> Result<Outcome, Error>) -> Row<Run> {
    Row { spec, run: Run::Keyed(run), subcommands: &[] }
}

/// The rows of this family.
pub const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "geoadd",
            arity: -5,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
            summary: "Adds one or more members to a geospatial index. The key is created if it doesn't exist.",
            syntax: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
            ..GEO
        },
        add::geoadd,
    ),
    row(
        Spec {
            name: "geodist",
            arity: -4,
            flags: READONLY,
            keys: READ_ONE,
            complexity: "O(1)",
            summary: "Returns the distance between two members of a geospatial index.",
            syntax: "key member1 member2 [M | KM | FT | MI]",
            ..GEO
        },
        read::geodist,
    ),
    row(
        Spec {
            name: "geohash",
            arity: -2,
            flags: READONLY,
            keys: READ_ONE,
            complexity: "O(1) for each member requested.",
            summary: "Returns members from a geospatial index as geohash strings.",
            syntax: "key [member [member ...]]",
            ..GEO
        },
        read::geohash_command,
    ),
    row(
        Spec {
            name: "geopos",
            arity: -2,
            flags: READONLY,
            keys: READ_ONE,
            complexity: "O(1) for each member requested.",
            summary: "Returns the longitude and latitude of members from a geospatial index.",
            syntax: "key [member [member ...]]",
            ..GEO
        },
        read::geopos,
    ),
    row(
        Spec {
            name: "geosearch",
            arity: -7,
            flags: READONLY,
            keys: READ_ONE,
            since: "6.2.0",
            complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the \
                         shape provided as the filter and M is the number of items inside the shape",
            summary: "Queries a geospatial index for members inside an area of a box or a circle.",
            syntax: "key [FROMMEMBER member | FROMLONLAT longitude latitude] <BYRADIUS radius <M | KM | FT | MI> | \
                     BYBOX width height <M | KM | FT | MI> | BYPOLYGON vertices longitude latitude [longitude \
                     latitude ...]> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] \
                     [WITHHASH]",
            ..GEO
        },
        search::geosearch,
    ),
    row(
        Spec {
            name: "geosearchstore",
            arity: -8,
            flags: WRITE | DENYOOM | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::one(2, RO | ACCESS)],
            since: "6.2.0",
            complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the \
                         shape provided as the filter and M is the number of items inside the shape",
            summary: "Queries a geospatial index for members inside an area of a box or a circle, optionally stores \
                      the result.",
            syntax: "destination source [FROMMEMBER member | FROMLONLAT longitude latitude] <BYRADIUS radius <M | KM \
                     | FT | MI> | BYBOX width height <M | KM | FT | MI> | BYPOLYGON vertices longitude latitude \
                     [longitude latitude ...]> [ASC | DESC] [COUNT count [ANY]] \
                     [STOREDIST]",
            ..GEO
        },
        search::geosearchstore,
    ),
    row(
        Spec {
            name: "georadius",
            arity: -6,
            flags: WRITE | DENYOOM | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::one(1, RO | ACCESS), stored("STORE", 6), stored("STOREDIST", 6)],
            find_keys: Some(store_key),
            complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
                         delimited by center and radius and M is the number of items inside the index.",
            summary: "Queries a geospatial index for members within a distance from a coordinate, optionally stores \
                      the result.",
            syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count \
                     [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
            ..GEO
        },
        search::georadius,
    ),
    row(
        Spec {
            name: "georadius_ro",
            arity: -6,
            flags: READONLY,
            keys: READ_ONE,
            since: "3.2.10",
            complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
                         delimited by center and radius and M is the number of items inside the index.",
            summary: "Returns members from a geospatial index that are within a distance from a coordinate.",
            syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count \
                     [ANY]] [ASC | DESC]",
            ..GEO
        },
        search::georadius_ro,
    ),
    row(
        Spec {
            name: "georadiusbymember",
            arity: -5,
            flags: WRITE | DENYOOM | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::one(1, RO | ACCESS), stored("STORE", 5), stored("STOREDIST", 5)],
            find_keys: Some(store_key),
            complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
                         delimited by center and radius and M is the number of items inside the index.",
            summary: "Queries a geospatial index for members within a distance from a member, optionally stores the \
                      result.",
            syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC \
                     | DESC] [STORE key | STOREDIST key]",
            ..GEO
        },
        search::georadiusbymember,
    ),
    row(
        Spec {
            name: "georadiusbymember_ro",
            arity: -5,
            flags: READONLY,
            keys: READ_ONE,
            since: "3.2.10",
            complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
                         delimited by center and radius and M is the number of items inside the index.",
            summary: "Returns members from a geospatial index that are within a distance from a member.",
            syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC \
                     | DESC]",
            ..GEO
        },
        search::georadiusbymember_ro,
    ),
];
