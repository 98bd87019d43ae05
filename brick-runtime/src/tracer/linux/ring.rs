//! perf's ring buffer: records out of shared memory, and events out of records.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

use super::recorder::Event;

/// Offsets in `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Types of records.
const LOST: u32 = 2;
const COMM: u32 = 3;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;

/// A mapped ring: one control page, then a power of two of data pages that the kernel fills.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    page: usize,
    data: usize,
}

// SAFETY: the memory is this ring's own until it is dropped; head and tail are atomics, and there
// is one reader, for `drain` takes `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of a perf event with `pages` data pages, a power of two.
    pub(super) fn map(fd: BorrowedFd<'_>, pages: NonZeroUsize) -> io::Result<Ring> {
        let page = page_size();
        let data = page * pages.get();
        // SAFETY: a fresh shared mapping of a descriptor; nothing else is touched.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                page + data,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // The kernel maps nothing at null unless it is told to.
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Ring { base, page, data })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are aligned and lie in the control page, which lives as long as
        // `self`; the kernel reads and writes these words atomically.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Gives every record that is there to `take`, in order, and frees their room.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let mut record = Vec::new();
        let (mut tail, head) = (
            self.word(DATA_TAIL).load(Acquire),
            self.word(DATA_HEAD).load(Acquire),
        );
        while tail < head {
            record.clear();
            self.copy(tail, 8, &mut record);
            let size = header(&record).map_or(0, |(_, size)| size);
            // Never so from a kernel; without this test a bad record would be read for ever.
            if size < 8 || tail + size as u64 > head {
                tail = head;
                break;
            }
            record.clear();
            self.copy(tail, size, &mut record);
            take(&record);
            tail += size as u64;
        }
        self.word(DATA_TAIL).store(tail, Release);
    }

    /// Copies `len` bytes at the position `at`, around the end.
    fn copy(&self, at: u64, len: usize, into: &mut Vec<u8>) {
        let from = (at % self.data as u64) as usize;
        let first = len.min(self.data - from);
        for (from, len) in [(from, first), (0, (len - first).min(self.data))] {
            // SAFETY: `from + len` is at most `self.data`, the bytes mapped behind the control
            // page. The kernel does not write between tail and head.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.base.as_ptr().add(self.page + from), len)
            };
            into.extend_from_slice(bytes);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made, with its length; no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.data) };
    }
}

fn page_size() -> usize {
    // SAFETY: takes an integer. Positive on every Linux.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// One end of a system call of a thread, at a time of the event's clock.
    Event { tid: i32, at: u64, event: Event },
    /// What a thread is called from now on.
    Name { tid: i32, name: String },
    /// So many records had no room.
    Lost(u64),
    /// Something that nobody asked for, or that is cut off.
    Other,
}

/// The ids of the two tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tracepoints {
    pub(super) enter: u16,
    pub(super) exit: u16,
}

impl Tracepoints {
    /// Reads a record of an event with `PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW`: after
    /// the header process and thread, the time, the size of the raw data, and the raw data, which is
    /// what the tracepoints' `format` files say (their layout was compared when the ids were read).
    pub(super) fn read(self, record: &[u8]) -> Record {
        self.try_read(record).unwrap_or(Record::Other)
    }

    fn try_read(self, record: &[u8]) -> Option<Record> {
        let (kind, _) = header(record)?;
        match kind {
            // Its id comes first.
            LOST => return Some(Record::Lost(word(record, 16)?)),
            LOST_SAMPLES => return Some(Record::Lost(word(record, 8)?)),
            COMM => {
                let name = record.get(16..)?.split(|&byte| byte == 0).next()?;
                return Some(Record::Name {
                    tid: tid(record)?,
                    name: String::from_utf8_lossy(name).into_owned(),
                });
            }
            SAMPLE => {}
            _ => return None,
        }
        let (tid, at) = (tid(record)?, word(record, 16)?);
        let raw = record.get(28..)?;
        let id = u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?);
        let (number, second) = (word(raw, 8)? as i64, word(raw, 16)?);
        let event = match id {
            id if id == self.enter => Event::Enter {
                number,
                argument: second,
            },
            id if id == self.exit => Event::Exit {
                number: Some(number),
                result: second as i64,
            },
            _ => return None,
        };
        Some(Record::Event { tid, at, event })
    }
}

/// Type and size.
fn header(record: &[u8]) -> Option<(u32, usize)> {
    let kind = u32::from_ne_bytes(record.get(..4)?.try_into().ok()?);
    let size = u16::from_ne_bytes(record.get(6..8)?.try_into().ok()?);
    Some((kind, size.into()))
}

/// The thread of a record, as the one who opened the event numbers it.
fn tid(record: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(record.get(12..16)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Tracepoints = Tracepoints {
        enter: 443,
        exit: 442,
    };
    /// Recorded from a kernel 6.18 on x86-64: process 8574 begins a `pread64`, which is 17, of file 3,
    #[rustfmt::skip]
    const ENTER: [u8; 96] = [
        9, 0, 0, 0, 1, 0, 96, 0, 126, 33, 0, 0, 126, 33, 0, 0, 1, 6, 179, 156, 223, 23, 0, 0, 68,
        0, 0, 0, 187, 1, 0, 1, 126, 33, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 16,
        32, 127, 212, 181, 127, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    /// and has read 4096 bytes;
    #[rustfmt::skip]
    const EXIT: [u8; 56] = [
        9, 0, 0, 0, 1, 0, 56, 0, 126, 33, 0, 0, 126, 33, 0, 0, 182, 10, 179, 156, 223, 23, 0, 0,
        28, 0, 0, 0, 186, 1, 0, 1, 126, 33, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0,
    ];
    /// its thread 8579 ends a `getuid`, which is 102.
    #[rustfmt::skip]
    const WORKER: [u8; 56] = [
        9, 0, 0, 0, 1, 0, 56, 0, 126, 33, 0, 0, 131, 33, 0, 0, 70, 252, 15, 162, 223, 23, 0, 0,
        28, 0, 0, 0, 186, 1, 0, 1, 131, 33, 0, 0, 102, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0,
    ];
    /// 18414 events had no room.
    #[rustfmt::skip]
    const NO_ROOM: [u8; 24] = [
        2, 0, 0, 0, 0, 0, 24, 0, 41, 67, 0, 0, 0, 0, 0, 0, 238, 71, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn recorded_records() {
        let event = |tid, at, event| Record::Event { tid, at, event };
        let exit = |number, result| Event::Exit {
            number: Some(number),
            result,
        };
        let enter = Event::Enter {
            number: 17,
            argument: 3,
        };
        assert_eq!(IDS.read(&ENTER), event(8574, 26_249_174_124_033, enter));
        assert_eq!(
            IDS.read(&EXIT),
            event(8574, 26_249_174_125_238, exit(17, 4096))
        );
        assert_eq!(
            IDS.read(&WORKER),
            event(8579, 26_249_264_102_470, exit(102, 0))
        );
        assert_eq!(IDS.read(&NO_ROOM), Record::Lost(18414));
        // Of other tracepoints, or cut off anywhere.
        let other = Tracepoints { enter: 1, exit: 2 };
        assert_eq!(other.read(&EXIT), Record::Other);
        for len in 0..52 {
            assert_eq!(IDS.read(&EXIT[..len]), Record::Other, "{len}");
        }
    }

    /// The kernel's end played by hand, in memory of our own: records that go around the end.
    #[test]
    fn records_around_the_end() {
        let page = page_size();
        // SAFETY: fresh anonymous memory, which `Ring` unmaps.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let mut ring = Ring {
            base: NonNull::new(base.cast()).unwrap(),
            page,
            data: page,
        };
        // Starts 72 bytes before the end of the data: the second record goes around.
        let start = 3 * page as u64 - 72;
        let both = [&EXIT[..], &ENTER[..]].concat();
        for (at, byte) in (start..).zip(&both) {
            let offset = page + (at % page as u64) as usize;
            // SAFETY: within the two pages that were mapped above.
            unsafe { ring.base.as_ptr().add(offset).write(*byte) };
        }
        ring.word(DATA_TAIL).store(start, Release);
        ring.word(DATA_HEAD)
            .store(start + both.len() as u64, Release);
        let mut got = Vec::new();
        ring.drain(|record| got.push(record.to_vec()));
        assert_eq!(got, [EXIT.to_vec(), ENTER.to_vec()]);
        assert_eq!(
            ring.word(DATA_TAIL).load(Acquire),
            start + both.len() as u64
        );
        ring.drain(|_| panic!("nothing is left"));
    }
}
