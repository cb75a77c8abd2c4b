//! Values against the store: after any changes, the assembled value is the frozen one.

mod changes;
mod formats;
mod histories;
mod store;
mod subjects;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::Limits;
use crate::hash::Expiry;
use crate::list::End;
use crate::stream::{Delivery, Group, Id, Trim};

use store::{Store, Write};
use subjects::{Change, Subject, image, text};
