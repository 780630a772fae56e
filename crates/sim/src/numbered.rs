//! What a domain has of the things of a network, under the numbers that they have in the whole network.

use std::ops::{Index, IndexMut};
use std::rc::Rc;
use std::sync::Arc;

/// The table entry of a thing that no domain has, or not this one.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Places of the things of one kind in their domain's list, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbering {
    /// Place of each number; `None`: the list has all, in order. A thing is in one domain only, so
    /// domains may share the table.
    places: Option<Arc<[u32]>>,
    /// Number of each place; `None`: as above.
    numbers: Option<Rc<[u32]>>,
}

impl Numbering {
    /// Creates the numbering of a domain that has these numbers, with a table for all domains.
    pub(crate) fn shared(places: &Arc<[u32]>, numbers: impl Iterator<Item = u32>) -> Numbering {
        Numbering { places: Some(Arc::clone(places)), numbers: Some(numbers.collect()) }
    }

    /// Creates the numbering of a domain that has these of `count` numbers, with its own table.
    pub(crate) fn own(count: usize, numbers: impl Iterator<Item = u32>) -> Numbering {
        let numbers: Rc<[u32]> = numbers.collect();
        let mut places = vec![NOWHERE; count];
        for (number, place) in numbers.iter().zip(0..) {
            places[*number as usize] = place;
        }
        Numbering { places: Some(places.into()), numbers: Some(numbers) }
    }

    /// Returns the place of a number that the domain has.
    #[inline]
    pub(crate) fn place(&self, number: usize) -> usize {
        match &self.places {
            None => number,
            Some(places) => self.look_up(places, number),
        }
    }

    /// Out of line, so that runs on one thread pay little.
    #[inline(never)]
    fn look_up(&self, places: &[u32], number: usize) -> usize {
        let place = places[number] as usize;
        debug_assert_eq!(self.number(place), number as u32, "it is in another domain");
        place
    }

    /// Returns the number of the thing at a place.
    #[inline]
    pub(crate) fn number(&self, place: usize) -> u32 {
        self.numbers.as_ref().map_or(place as u32, |numbers| numbers[place])
    }

    /// Returns how many of `all` things the domain has.
    pub(crate) fn count(&self, all: usize) -> usize {
        self.numbers.as_ref().map_or(all, |numbers| numbers.len())
    }

    /// Reports whether the domain has this number.
    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        let (Some(places), Some(numbers)) = (&self.places, &self.numbers) else { return true };
        let place = places.get(number as usize);
        place.is_some_and(|place| numbers.get(*place as usize) == Some(&number))
    }
}

/// A domain's things of one kind. Indices are numbers of the whole network.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    things: Vec<T>,
    numbering: Numbering,
}

impl<T> Numbered<T> {
    /// Numbers things that are in the order of their numbers.
    pub(crate) fn new(things: Vec<T>, numbering: &Numbering) -> Numbered<T> {
        Numbered { things, numbering: numbering.clone() }
    }

    /// Numbers all things of a network.
    pub(crate) fn whole(things: Vec<T>) -> Numbered<T> {
        Numbered::new(things, &Numbering::default())
    }

    pub(crate) fn len(&self) -> usize {
        self.things.len()
    }

    /// Returns the number of the thing at a place in the list.
    pub(crate) fn number(&self, place: usize) -> u32 {
        self.numbering.number(place)
    }

    /// Reports whether the domain has the thing of this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.numbering.has(number)
    }

    /// Returns a thing if there is one of this number, and the domain has it.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let place = self.has(number as u32).then(|| self.numbering.place(number))?;
        self.things.get(place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.things.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.things.iter_mut()
    }

    /// Iterates over the things, each with its number.
    pub(crate) fn numbered_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbering = &self.numbering;
        self.things.iter_mut().enumerate().map(|(place, it)| (numbering.number(place), it))
    }
}

impl<T> Index<usize> for Numbered<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        &self.things[self.numbering.place(number)]
    }
}

impl<T> IndexMut<usize> for Numbered<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.things[self.numbering.place(number)]
    }
}
