//! The hooks of a brick that was made at run time; nothing in a build without `visualization`.

use std::panic::Location;
use std::time::Duration;

use super::{BrickError, OpError, Work};
use crate::contract::Fault;
use crate::registry::Backend;

/// What a brick is called in reports.
#[cfg_attr(not(feature = "visualization"), allow(dead_code))]
pub(super) struct Named<'a> {
    name: &'a str,
    op: &'static str,
    backend: Backend,
    budget: Option<Duration>,
    checks: Vec<String>,
    at: &'static Location<'static>,
}

impl<'a> Named<'a> {
    pub(super) fn new<Op>(
        name: &'a str,
        backend: Backend,
        budget: Option<Duration>,
        checks: Vec<String>,
        at: &'static Location<'static>,
    ) -> Named<'a> {
        Named {
            name,
            op: std::any::type_name::<Op>(),
            backend,
            budget,
            checks,
            at,
        }
    }
}

#[cfg(feature = "visualization")]
pub(super) use live::Timing;

#[cfg(not(feature = "visualization"))]
#[derive(Debug, Default)]
pub(super) struct Timing {}

#[cfg(not(feature = "visualization"))]
impl Timing {
    /// Runs `execute`.
    pub(super) fn call<'a, O>(
        &self,
        named: impl FnOnce() -> Named<'a>,
        _work: Work,
        execute: impl FnOnce() -> Result<O, OpError>,
        _fault: impl FnOnce(&O) -> Result<Option<Fault>, OpError>,
    ) -> Result<(O, Option<Duration>), BrickError> {
        match execute() {
            Ok(output) => Ok((output, None)),
            Err(source) => Err(BrickError::Op {
                brick: named().name.to_owned(),
                source,
            }),
        }
    }
}

#[cfg(feature = "visualization")]
mod live {
    use std::collections::HashMap;
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::{Duration, Instant};

    use super::{BrickError, Fault, Named, OpError, Work};
    use crate::contract::{Violation, count};
    use crate::hook::{Recorded, Site};
    use crate::registry::{BrickInfo, Budget, Checks};
    use crate::scope::current_layer;

    /// The site that a brick records at.
    #[derive(Debug, Default)]
    pub(in crate::compute) struct Timing {
        site: OnceLock<&'static Recorded>,
    }

    impl Timing {
        /// Runs `execute` as a call of the brick, then `fault` as its check.
        pub(in crate::compute) fn call<'a, O>(
            &self,
            named: impl FnOnce() -> Named<'a>,
            work: Work,
            execute: impl FnOnce() -> Result<O, OpError>,
            fault: impl FnOnce(&O) -> Result<Option<Fault>, OpError>,
        ) -> Result<(O, Option<Duration>), BrickError> {
            let Recorded { info, site } = self.site.get_or_init(|| intern(&named()));
            let failed = |source| BrickError::Op {
                brick: info.name.to_owned(),
                source,
            };
            let entry = site.open().flops(work.flops).bytes(work.bytes);
            let guard = entry.tokens(work.tokens).elements(work.elements).start();
            let begin = Instant::now();
            let output = execute();
            let elapsed = begin.elapsed();
            let post = guard.exit();
            let output = output.map_err(failed)?;
            let fault = post.timed(|| fault(&output)).map_err(failed)?;
            if let Some(fault) = fault {
                let violation = Violation::new(info, current_layer(), fault);
                count(&violation);
                return Err(BrickError::Assertion(Box::new(violation)));
            }
            Ok((output, Some(elapsed)))
        }
    }

    /// The site of a name: the same for the same brick each time it is made.
    fn intern(named: &Named<'_>) -> &'static Recorded {
        static SITES: OnceLock<Mutex<HashMap<String, &'static Recorded>>> = OnceLock::new();
        let Named {
            name,
            op,
            backend,
            budget,
            checks,
            at,
        } = named;
        let checks = checks.join("\u{1e}");
        let key =
            format!("{name}\u{1f}{op}\u{1f}{backend:?}\u{1f}{budget:?}\u{1f}{at}\u{1f}{checks}");
        let mut sites = SITES
            .get_or_init(Mutex::default)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sites.entry(key).or_insert_with(|| {
            let name: &'static str = String::leak((*name).to_owned());
            let mut info = BrickInfo::new(name, op, op, at.file(), at.line());
            info.category = "Compute";
            info.backend = *backend;
            info.checks = Checks::new(String::leak(checks));
            if let Some(budget) = budget {
                let ns = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
                info.budget = Budget::Fixed { ns };
            }
            let info: &'static BrickInfo = Box::leak(Box::new(info));
            Box::leak(Box::new(Recorded {
                info,
                site: Site::new(info),
            }))
        })
    }
}
