//! A bounded queue that sheds load in one piece instead of every second item.

use std::collections::VecDeque;

/// A queue with a high and a low mark. Full to the high mark, it takes nothing more until it has been
/// emptied to the low one.
///
/// The gap is the point: a queue that takes one whenever one leaves would, under load, keep a
/// random sample of everything; this one keeps whole stretches and loses whole stretches. It never
/// holds more than `high` items.
#[derive(Debug)]
pub struct WatermarkedBuffer<T> {
    items: VecDeque<T>,
    high: usize,
    low: usize,
    shedding: bool,
    dropped: u64,
}

impl<T> WatermarkedBuffer<T> {
    /// An empty one. `high` is at least 1, and `low` below it: larger ones are brought down.
    #[must_use]
    pub fn new(high: usize, low: usize) -> WatermarkedBuffer<T> {
        let high = high.max(1);
        WatermarkedBuffer {
            items: VecDeque::new(),
            high,
            low: low.min(high - 1),
            shedding: false,
            dropped: 0,
        }
    }

    /// Puts an item at the end; gives it back, and counts it, where there is no room now.
    ///
    /// # Errors
    /// The item, if the buffer is full or has not been emptied to its low mark since it was.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if !self.has_room() {
            self.dropped += 1;
            return Err(item);
        }
        self.items.push_back(item);
        self.shedding = self.items.len() >= self.high;
        Ok(())
    }

    /// Takes up to `n` items from the front, the oldest first.
    pub fn take(&mut self, n: usize) -> Vec<T> {
        let n = n.min(self.items.len());
        let taken = self.items.drain(..n).collect();
        if self.items.len() <= self.low {
            self.shedding = false;
        }
        taken
    }

    /// Whether the next item would be taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.shedding
    }

    /// How many would be taken now, one after the other.
    #[must_use]
    pub fn room(&self) -> usize {
        match self.has_room() {
            true => self.high - self.items.len(),
            false => 0,
        }
    }

    /// Items in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Items that were not taken, since it was made.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::WatermarkedBuffer;

    /// By hand: high 4, low 1.
    #[test]
    fn it_sheds_between_the_marks() {
        let mut buffer = WatermarkedBuffer::new(4, 1);
        let taken: Vec<bool> = (0..6).map(|i| buffer.push(i).is_ok()).collect();
        assert_eq!(taken, [true, true, true, true, false, false]);
        assert_eq!(buffer.room(), 0);
        assert_eq!(buffer.take(2), [0, 1]);
        assert_eq!(buffer.push(6), Err(6), "2 left, above the low mark");
        assert_eq!(buffer.take(1), [2]);
        assert_eq!(buffer.push(7), Ok(()), "1 left, at the low mark");
        assert_eq!(buffer.push(8), Ok(()));
        assert_eq!((buffer.len(), buffer.dropped()), (3, 3));
        assert_eq!(buffer.room(), 1);
        assert_eq!(buffer.take(9), [3, 7, 8]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn marks_that_make_no_sense_still_bound_it() {
        for (high, low) in [(0, 0), (1, 1), (3, 9)] {
            let mut buffer = WatermarkedBuffer::new(high, low);
            let taken = (0..9).filter(|&i| buffer.push(i).is_ok()).count();
            assert_eq!(taken, high.max(1));
            buffer.take(9);
            assert!(
                buffer.has_room(),
                "{high}, {low}: emptied, and still refusing"
            );
        }
    }
}
