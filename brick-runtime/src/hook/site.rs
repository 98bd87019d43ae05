//! One annotated function, and how its calls find their thread's slab.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use super::{mode, pause};
use crate::claim;
use crate::registry::BrickInfo;
use crate::slab::meta;
use crate::slab::{self, Slab, sites};

/// One annotated function: a static in its body.
#[derive(Debug)]
pub struct Site {
    index: AtomicU16,
    name: Name,
}

/// A site that was made at run time, with what it is called.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) info: &'static BrickInfo,
    pub(crate) site: Site,
}

/// What a site is called.
#[derive(Debug)]
enum Name {
    Info(&'static BrickInfo),
    /// A claim's text, taken apart when the site is first entered.
    Claim {
        text: &'static str,
        backend: u8,
        info: OnceLock<&'static BrickInfo>,
    },
}

impl Site {
    /// Of a brick made by hand.
    #[must_use]
    pub const fn new(info: &'static BrickInfo) -> Site {
        Site::named(Name::Info(info))
    }

    /// Of a claim: `text` is `Claim::TEXT`.
    #[must_use]
    pub const fn of_claim(text: &'static str, backend: u8) -> Site {
        Site::named(Name::Claim {
            text,
            backend,
            info: OnceLock::new(),
        })
    }

    const fn named(name: Name) -> Site {
        Site {
            index: AtomicU16::new(sites::UNREGISTERED),
            name,
        }
    }

    pub(super) fn info(&self) -> &'static BrickInfo {
        match &self.name {
            Name::Info(info) => info,
            Name::Claim {
                text,
                backend,
                info,
            } => info.get_or_init(|| claim::info(text, *backend)),
        }
    }

    /// The brick's index; [`sites::UNREGISTERED`] before its first call.
    pub(super) fn index(&self) -> u16 {
        self.index.load(Relaxed)
    }

    /// The usual case: the mode is plain, and the thread's slab knows the brick.
    #[inline(always)]
    pub(super) fn find_fast(&'static self) -> Option<(&'static Slab, u16, u16)> {
        let slab = slab::current();
        if !slab.is_open() {
            return None;
        }
        let index = self.index.load(Relaxed);
        let opened = slab.state(index).load(Relaxed);
        if opened == meta::ABSENT {
            return None;
        }
        Some((slab, index, opened))
    }

    /// The slab, index and state for a call where it takes more than a look; `None` where
    /// it is not to be recorded, or cannot.
    pub(super) fn find_slow(&'static self) -> Option<(&'static Slab, u16, u16)> {
        // Below, an allocator may run, and be a brick itself.
        thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });
        if INSIDE.replace(true) {
            slab::count_dropped();
            return None;
        }
        let found = self.look();
        INSIDE.set(false);
        found
    }

    fn look(&'static self) -> Option<(&'static Slab, u16, u16)> {
        if !mode::enabled() {
            return None;
        }
        if mode::paused() {
            pause::count();
            return None;
        }
        let (slab, index) = match slab::claimed(self.info(), self.index.load(Relaxed)) {
            Ok((slab, index)) => (Some(slab), index),
            Err(index) => (None, index),
        };
        self.index.store(index, Relaxed);
        let slab = slab?;
        Some((slab, index, slab.state(index).load(Relaxed)))
    }
}
