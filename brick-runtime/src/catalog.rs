//! The bricks of several crates together.

use crate::registry::{BrickId, BrickInfo};
use crate::snapshot::Snapshot;
use crate::stats::BrickStats;
use crate::tally::Tally;

/// The bricks of one or several crates, called or not.
///
/// Naming each crate's `BrickId` is what brings its bricks in: nothing depends on what a linker
/// keeps.
///
/// ```
/// # pub extern crate brick_runtime; // rustdoc's own is private, which `bricks!` can't re-export
/// use brick_runtime::{Registry, brick, bricks};
///
/// bricks! { Double }
///
/// /// Doubles a number.
/// #[brick(id = Double)]
/// fn double(x: f32) -> f32 {
///     2.0 * x
/// }
///
/// fn main() {
///     let registry = Registry::of::<BrickId>();
///     let brick = registry.named("Double").next().unwrap();
///     assert_eq!((brick.function, brick.doc), ("double", "Doubles a number."));
///     assert_eq!(registry.by_wire_id(brick.wire_id), Some(brick));
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    bricks: Vec<&'static BrickInfo>,
}

impl Registry {
    /// The bricks of the crate whose `BrickId` is `B`.
    #[must_use]
    pub fn of<B: BrickId>() -> Registry {
        Registry::default().and::<B>()
    }

    /// And those of another crate. A crate that is in already is not taken in twice.
    #[must_use]
    pub fn and<B: BrickId>(mut self) -> Registry {
        for brick in B::table() {
            if !self.bricks.contains(brick) {
                self.bricks.push(brick);
            }
        }
        self
    }

    /// Every brick, crate by crate.
    #[must_use]
    pub fn bricks(&self) -> &[&'static BrickInfo] {
        &self.bricks
    }

    /// The brick of a wire id.
    #[must_use]
    pub fn by_wire_id(&self, wire_id: u64) -> Option<&'static BrickInfo> {
        self.bricks
            .iter()
            .find(|brick| brick.wire_id == wire_id)
            .copied()
    }

    /// The bricks of a name: `kernels::Softmax` is one at most, `Softmax` one per crate.
    pub fn named<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = &'static BrickInfo> + use<'_, 'n> {
        let (crate_name, name) = match name.split_once("::") {
            Some((crate_name, name)) => (Some(crate_name), name),
            None => (None, name),
        };
        let wanted = move |brick: &&BrickInfo| {
            brick.name == name && crate_name.is_none_or(|crate_name| brick.crate_name == crate_name)
        };
        self.bricks.iter().copied().filter(wanted)
    }

    /// Bricks that differ and share a wire id. 64 bits make that unlikely among any number of
    /// bricks that people write; a program that exchanges wire ids can make sure.
    #[must_use]
    pub fn collisions(&self) -> Vec<(&'static BrickInfo, &'static BrickInfo)> {
        let mut sorted = self.bricks.clone();
        sorted.sort_by_key(|brick| brick.wire_id);
        sorted
            .windows(2)
            .filter(|w| w[0].wire_id == w[1].wire_id)
            .map(|w| (w[0], w[1]))
            .collect()
    }

    /// The snapshot with a row for every brick of this registry: those that were never called
    /// have no calls and no times, and come last.
    #[must_use]
    pub fn complete(&self, mut snapshot: Snapshot) -> Snapshot {
        for brick in &self.bricks {
            if !snapshot.bricks.iter().any(|row| row.info() == *brick) {
                snapshot.bricks.push(BrickStats::new(
                    brick,
                    Tally::default(),
                    snapshot.ns_per_tick,
                ));
            }
        }
        snapshot
    }
}
