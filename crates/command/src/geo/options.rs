//! The arguments of GEOSEARCH, GEORADIUS and their kin: all eight commands.

use object::ZSet;
use object::geo::{Polygon, Position, Search, Shape};
use object::number::parse_f64;
use resp::Args;

use super::{position, position_of, unit};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::spec::{KeyAt, key_flags};

/// The command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// GEORADIUS: the centre and the circle stand first.
    Around,
    /// GEORADIUSBYMEMBER.
    AroundMember,
    /// GEOSEARCH and GEOSEARCHSTORE: everything is an option.
    Search,
}

/// The place where the command stores its result, if it does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Storing {
    Never,
    /// By STORE and STOREDIST.
    Maybe,
    /// Argument 1 is the key.
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    NearestFirst,
    FarthestFirst,
}

/// The request.
pub(super) struct Options {
    /// `None` if there is no set to search.
    pub center: Option<Position>,
    /// In metres.
    pub shape: Option<Shape>,
    /// The polygon that a search covers instead of a shape around a centre (Valkey).
    pub polygon: Option<Polygon>,
    /// Metres per unit of the shape, and of distances in replies.
    pub unit: f64,
    pub with_distance: bool,
    pub with_hash: bool,
    pub with_position: bool,
    pub order: Option<Order>,
    /// Most members of the result; 0: no limit.
    pub count: usize,
    /// True if the first found members will do.
    pub any: bool,
    /// The argument that is the key to store at.
    pub store: Option<usize>,
    /// Store distances as scores, not positions.
    pub store_distance: bool,
}

fn undecodable() -> Error {
    Error::new("ERR could not decode requested zset member")
}

impl Options {
    /// Reads the arguments; `set`: the set to search.
    pub(super) fn parse(ctx: &Ctx<'_>, form: Form, storing: Storing, set: Option<&ZSet>) -> Result<Self, Error> {
        let mut options = Options {
            center: None,
            shape: None,
            polygon: None,
            unit: 1.0,
            with_distance: false,
            with_hash: false,
            with_position: false,
            order: None,
            count: 0,
            any: false,
            store: (storing == Storing::Always).then_some(1),
            store_distance: false,
        };
        let first = match form {
            Form::Around => {
                options.center = Some(position(ctx, 2)?);
                options.circle(ctx, 4)?;
                6
            }
            Form::AroundMember => {
                if let Some(set) = set {
                    options.center = Some(position_of(set, ctx.arg(2)).ok_or_else(undecodable)?);
                    options.circle(ctx, 3)?;
                }
                5
            }
            Form::Search if storing == Storing::Always => 3,
            Form::Search => 2,
        };
        let from = options.words(ctx, first, form, storing, set)?;
        options.check(ctx, form, storing, from)?;
        Ok(options)
    }

    /// Reads the options from argument `i` on; returns whether one of them names the centre.
    fn words(
        &mut self,
        ctx: &Ctx<'_>,
        mut i: usize,
        form: Form,
        storing: Storing,
        set: Option<&ZSet>,
    ) -> Result<bool, Error> {
        let is_search = form == Form::Search;
        let (mut from_member, mut from_position) = (false, false);
        while i < ctx.args.len() {
            let behind = ctx.args.len() - i - 1;
            let is = |word| ctx.is(i, word);
            let used = if is("withdist") {
                self.with_distance = true;
                0
            } else if is("withhash") {
                self.with_hash = true;
                0
            } else if is("withcoord") {
                self.with_position = true;
                0
            } else if is("any") {
                self.any = true;
                0
            } else if is("asc") {
                self.order = Some(Order::NearestFirst);
                0
            } else if is("desc") {
                self.order = Some(Order::FarthestFirst);
                0
            } else if is("count") && behind >= 1 {
                let count = usize::try_from(ctx.int(i + 1)?).ok().filter(|count| *count > 0);
                self.count = count.ok_or(Error::new("ERR COUNT must be > 0"))?;
                1
            } else if (is("store") || is("storedist")) && behind >= 1 && storing == Storing::Maybe {
                self.store = Some(i + 1);
                self.store_distance = is("storedist");
                1
            } else if is("storedist") && storing == Storing::Always {
                self.store_distance = true;
                0
            } else if is("bypolygon") && behind >= 2 && is_search && self.center.is_none() && self.shape.is_none() {
                if from_member || from_position {
                    return Err(Error::SYNTAX);
                }
                self.corners(ctx, i + 1)?
            } else if self.polygon.is_some() {
                return Err(Error::SYNTAX);
            } else if is("frommember") && behind >= 1 && is_search && !from_position {
                if let Some(set) = set {
                    self.center = Some(position_of(set, ctx.arg(i + 1)).ok_or_else(undecodable)?);
                }
                from_member = true;
                1
            } else if is("fromlonlat") && behind >= 2 && is_search && !from_member {
                self.center = Some(position(ctx, i + 1)?);
                from_position = true;
                2
            } else if is("byradius") && behind >= 2 && is_search && !matches!(self.shape, Some(Shape::Box { .. })) {
                self.circle(ctx, i + 1)?;
                2
            } else if is("bybox") && behind >= 3 && is_search && !matches!(self.shape, Some(Shape::Circle(_))) {
                self.rectangle(ctx, i + 1)?;
                3
            } else {
                return Err(Error::SYNTAX);
            };
            i += 1 + used;
        }
        Ok(from_member || from_position)
    }

    /// The error for missing options, or contradictory ones.
    fn check(&self, ctx: &Ctx<'_>, form: Form, storing: Storing, from: bool) -> Result<(), Error> {
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            return Err(Error::new(match storing {
                Storing::Always => "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
                _ => "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            }));
        }
        let one_of =
            |what: &str| [b"ERR exactly one of ", what.as_bytes(), b" can be specified for ", ctx.arg(0)].concat();
        let needs_shape = form == Form::Search && self.polygon.is_none();
        if needs_shape && !from {
            return Err(Error::text(one_of("FROMMEMBER or FROMLONLAT")));
        }
        if needs_shape && self.shape.is_none() {
            return Err(Error::text(one_of("BYRADIUS and BYBOX")));
        }
        if self.any && self.count == 0 {
            return Err(Error::new("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// The area to search; `None`: there is no centre.
    pub(super) fn search(&self) -> Option<Search> {
        match &self.polygon {
            Some(polygon) => Some(polygon.search()),
            None => Some(Search::new(self.center?, self.shape?)),
        }
    }

    /// The number of corners at argument `i`, and their positions; returns the number of arguments.
    fn corners(&mut self, ctx: &Ctx<'_>, i: usize) -> Result<usize, Error> {
        const TOO_FEW: Error = Error::new("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
        let count = object::number::parse_i64(ctx.arg(i)).and_then(|count| i32::try_from(count).ok());
        let count = count.ok_or(Error::new("ERR invalid number of vertices"))?;
        let count = usize::try_from(count).map_err(|_| TOO_FEW)?;
        if count > (ctx.args.len() - i - 1) / 2 {
            return Err(TOO_FEW);
        }
        let corners = (0..count).map(|corner| position(ctx, i + 1 + 2 * corner)).collect::<Result<Vec<_>, _>>()?;
        self.polygon = Some(Polygon::new(corners).ok_or(TOO_FEW)?);
        Ok(1 + 2 * count)
    }

    /// A radius and its unit at argument `i`.
    fn circle(&mut self, ctx: &Ctx<'_>, i: usize) -> Result<(), Error> {
        let radius = number(ctx, i, "ERR need numeric radius")?;
        if radius < 0.0 {
            return Err(Error::new("ERR radius cannot be negative"));
        }
        self.unit = unit(ctx, i + 1)?;
        self.shape = Some(Shape::Circle(radius * self.unit));
        Ok(())
    }

    /// Width, height and their unit at argument `i`.
    fn rectangle(&mut self, ctx: &Ctx<'_>, i: usize) -> Result<(), Error> {
        let width = number(ctx, i, "ERR need numeric width")?;
        let height = number(ctx, i + 1, "ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err(Error::new("ERR height or width cannot be negative"));
        }
        self.unit = unit(ctx, i + 2)?;
        self.shape = Some(Shape::Box { width: width * self.unit, height: height * self.unit });
        Ok(())
    }
}

fn number(ctx: &Ctx<'_>, i: usize, error: &'static str) -> Result<f64, Error> {
    ctx.args.get(i).and_then(parse_f64).ok_or(Error::new(error))
}

/// The key of STORE or STOREDIST, of which the last one counts, where the key specifications have found another.
pub(super) fn store_key(args: Args<'_>, out: &mut Vec<KeyAt>) {
    let is = |i: usize, word: &str| args.get(i).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let (mut i, mut last) = (5, None);
    while i + 1 < args.len() {
        if is(i, "store") || is(i, "storedist") {
            i += 1;
            last = Some(i);
        }
        i += 1;
    }
    if let Some(index) = last
        && out.iter().all(|key| key.index != index)
    {
        out.push(KeyAt { index, flags: key_flags::OW | key_flags::UPDATE });
    }
}
