//! Intervals on a line, kept disjoint and sorted.

use std::cmp::{max, min};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    pub start: u64,
    pub end: u64, // exclusive
}

#[derive(Debug, PartialEq, Eq)]
pub enum IntervalError {
    Empty { at: u64 },
    Reversed { start: u64, end: u64 },
}

impl fmt::Display for IntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { at } => write!(f, "the interval at {at} is empty"),
            Self::Reversed { start, end } => write!(f, "{start} lies behind {end}"),
        }
    }
}

impl Interval {
    pub fn new(start: u64, end: u64) -> Result<Self, IntervalError> {
        match start.cmp(&end) {
            std::cmp::Ordering::Less => Ok(Self { start, end }),
            std::cmp::Ordering::Equal => Err(IntervalError::Empty { at: start }),
            std::cmp::Ordering::Greater => Err(IntervalError::Reversed { start, end }),
        }
    }

    pub fn touches(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

#[derive(Default, Debug)]
pub struct IntervalSet {
    sorted: Vec<Interval>,
}

impl IntervalSet {
    pub fn insert(&mut self, new: Interval) {
        let first = self.sorted.partition_point(|held| held.end < new.start);
        let mut merged = new;
        let mut last = first;
        while last < self.sorted.len() && self.sorted[last].touches(&merged) {
            merged.start = min(merged.start, self.sorted[last].start);
            merged.end = max(merged.end, self.sorted[last].end);
            last += 1;
        }
        self.sorted.splice(first..last, std::iter::once(merged));
    }

    pub fn contains(&self, point: u64) -> bool {
        let at = self.sorted.partition_point(|held| held.end <= point);
        self.sorted.get(at).is_some_and(|held| held.start <= point)
    }

    pub fn covered(&self) -> u64 {
        self.sorted.iter().map(|held| held.end - held.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one() {
        let mut set = IntervalSet::default();
        for (start, end) in [(10, 20), (30, 40), (20, 30)] {
            set.insert(Interval::new(start, end).unwrap());
        }
        assert_eq!(set.sorted, vec![Interval { start: 10, end: 40 }]);
        assert!(set.contains(39) && !set.contains(40));
    }
}
