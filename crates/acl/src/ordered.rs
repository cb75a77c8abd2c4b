//! Items in the order in which they came, found by their names. A user may have 100,000 rules: a search through all of
//! them for each new one would stop a worker for a minute.

use std::collections::BTreeMap;

/// An item that has a name.
pub(crate) trait Named {
    /// The name: no two items of a collection share it.
    fn name(&self) -> &[u8];
}

impl Named for Vec<u8> {
    fn name(&self) -> &[u8] {
        self
    }
}

/// Items in the order in which they came. To add, find or remove one takes logarithmic time.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T> {
    /// `None`: it was removed.
    items: Vec<Option<T>>,
    places: BTreeMap<Vec<u8>, usize>,
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Ordered { items: Vec::new(), places: BTreeMap::new() }
    }
}

impl<T: PartialEq> PartialEq for Ordered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Ordered<T> {}

impl<T> Ordered<T> {
    /// The items, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there is an item of this name.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.places.contains_key(name)
    }

    /// The item of this name.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut T> {
        self.items.get_mut(*self.places.get(name)?)?.as_mut()
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        *self = Ordered::default();
    }

    /// Removes the item of this name; false if there is none.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(place) = self.places.remove(name) else { return false };
        if let Some(item) = self.items.get_mut(place) {
            *item = None;
        }
        if self.items.len() > 2 * self.places.len() + 8 {
            self.close_gaps();
        }
        true
    }

    /// Names of the items whose names begin so.
    pub fn names_with(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let behind = self.places.range(prefix.to_vec()..).map(|(name, _)| name);
        behind.take_while(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// Forgets the places of removed items.
    fn close_gaps(&mut self) {
        let mut next = 0;
        let places = self.items.iter().map(|item| {
            let place = next;
            next += usize::from(item.is_some());
            place
        });
        let places: Vec<usize> = places.collect();
        self.places.values_mut().for_each(|place| *place = places.get(*place).copied().unwrap_or(0));
        self.items.retain(Option::is_some);
    }
}

impl<T: Named> Ordered<T> {
    /// Adds an item as the newest; false, without a change, if there is one of its name.
    pub fn push(&mut self, item: T) -> bool {
        if self.contains(item.name()) {
            return false;
        }
        self.places.insert(item.name().to_vec(), self.items.len());
        self.items.push(Some(item));
        true
    }
}

impl<T: Named> FromIterator<T> for Ordered<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut all = Ordered::default();
        for item in items {
            all.push(item);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The model is a list that is searched.
        #[test]
        fn is_as_a_list(steps in prop::collection::vec(("[ab]{1,3}", 0..4), 0..200)) {
            let (mut all, mut model) = (Ordered::default(), Vec::<Vec<u8>>::new());
            for (name, step) in steps {
                let name = name.into_bytes();
                if step < 2 {
                    prop_assert_eq!(all.push(name.clone()), !model.contains(&name));
                    if !model.contains(&name) {
                        model.push(name.clone());
                    }
                } else {
                    prop_assert_eq!(all.remove(&name), model.contains(&name));
                    model.retain(|known| *known != name);
                }
                prop_assert!(all.iter().eq(&model));
                prop_assert_eq!(all.len(), model.len());
                prop_assert!(all.items.len() <= 2 * model.len() + 9);
                let mut begun: Vec<_> = model.iter().filter(|known| known.starts_with(&name)).cloned().collect();
                begun.sort();
                prop_assert_eq!(all.names_with(&name), begun);
            }
        }
    }
}
