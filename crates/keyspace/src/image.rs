//! A value as bytes from which another entry can be made: RENAME, COPY, MOVE and RESTORE write them into their effects.
//!
//! ```text
//! image := kind u8 (the number of `Kind`), contents
//! contents := i64 little-endian (Int) | the bytes (Short, Raw, Blob) | the collection's own encoding
//! ```

use std::sync::Arc;

use object::Corrupt;

use crate::db::EntryRef;
use crate::entry::INLINE_MAX;
use crate::value::{AnyCollection, Blob, Kind, Value, clone_collection};

impl EntryRef<'_> {
    /// Appends the image of the value. The cost grows with the value.
    pub fn write_image(self, out: &mut Vec<u8>) {
        out.push(self.kind() as u8);
        self.write_contents(out);
    }

    /// Appends the contents of the image alone.
    pub fn write_contents(self, out: &mut Vec<u8>) {
        let entry = self.entry();
        match self.kind() {
            Kind::Int => out.extend_from_slice(&entry.int().to_le_bytes()),
            Kind::Short | Kind::Raw => out.extend_from_slice(entry.inline()),
            Kind::Blob => out.extend_from_slice(entry.blob()),
            _ => crate::value::encode_collection(entry, out),
        }
    }
}

/// A large value whose image is written later, by any thread: it shares its large parts with the entry, and does not
/// change.
pub struct SharedImage(Shared);

enum Shared {
    Blob(Arc<Blob>),
    Collection(AnyCollection),
}

impl EntryRef<'_> {
    /// The value, if it takes at least `from` bytes and can be shared: an image of it takes long to write.
    pub fn share_image(self, from: usize) -> Option<SharedImage> {
        let entry = self.entry();
        if !entry.kind().owns_pointer() || self.memory() < from {
            return None;
        }
        Some(SharedImage(match entry.kind() {
            Kind::Blob => Shared::Blob(entry.blob().clone()),
            _ => Shared::Collection(clone_collection(entry)?),
        }))
    }
}

impl SharedImage {
    /// Appends the image of the value as it was: see [`EntryRef::write_image`].
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(match &self.0 {
            Shared::Blob(_) => Kind::Blob,
            Shared::Collection(collection) => collection.kind(),
        } as u8);
        self.write_contents(out);
    }

    /// Appends the contents alone.
    pub fn write_contents(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Shared::Blob(bytes) => out.extend_from_slice(bytes),
            Shared::Collection(collection) => collection.encode(out),
        }
    }

    /// About how many bytes that is.
    pub fn about(&self) -> usize {
        match &self.0 {
            Shared::Blob(bytes) => bytes.len(),
            Shared::Collection(collection) => collection.memory(),
        }
    }
}

impl Value {
    /// Reads an image. Fails on bytes that no value writes.
    ///
    /// # Errors
    ///
    /// The image is damaged.
    pub fn from_image(image: &[u8]) -> Result<Value, Corrupt> {
        let (&kind, contents) = image.split_first().ok_or(Corrupt("image is empty"))?;
        let kind = Kind::from_byte(kind).ok_or(Corrupt("kind of value"))?;
        Ok(match kind {
            Kind::Int => {
                let bytes = contents.try_into().map_err(|_| Corrupt("length of an integer"))?;
                Value::Int(i64::from_le_bytes(bytes))
            }
            _ if kind.is_string() && contents.len() > INLINE_MAX => Value::Blob(Arc::new(contents.to_vec())),
            Kind::Short => Value::Short(contents.into()),
            Kind::Raw | Kind::Blob => Value::Raw(contents.into()),
            _ => Value::Collection(AnyCollection::decode(kind, contents)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Single;
    use crate::{Expiry, Keyspace};
    use object::{Limits, List, list::End};

    #[test]
    fn images_come_back() {
        let ks = Keyspace::new(1, 1, 1);
        let mut single = Single::new(&ks);
        single.with(0, |db| {
            let mut list = List::new();
            list.push(End::Back, b"element", &Limits::default());
            let values: [Value; 5] = [
                Value::Int(-5),
                Value::Short(b"text"[..].into()),
                Value::Raw(b""[..].into()),
                Value::Blob(Arc::new(vec![7; 20_000])),
                list.into(),
            ];
            for value in values {
                let (from, to) = (db.key(b"from"), db.key(b"to"));
                db.set_value(&from, value, Expiry::Clear);
                let mut image = Vec::new();
                db.peek(&from).unwrap().write_image(&mut image);
                db.set_value(&to, Value::from_image(&image).unwrap(), Expiry::Clear);
                let mut again = Vec::new();
                db.peek(&to).unwrap().write_image(&mut again);
                assert_eq!(image, again);
                let shared = db.peek(&to).unwrap().share_image(0);
                db.set_value(&to, Value::Int(7), Expiry::Clear);
                if let Some(shared) = &shared {
                    again.clear();
                    shared.write(&mut again);
                    assert_eq!(image, again, "what was shared stays as it was");
                }
                assert_eq!(shared.is_some(), image[0] >= Kind::Blob as u8);
            }
        });
    }

    #[test]
    fn nonsense_is_refused() {
        for image in [&b""[..], b"\x00short", b"\x09", b"\x04\xff\xff"] {
            assert!(Value::from_image(image).is_err(), "{image:?}");
        }
    }
}
