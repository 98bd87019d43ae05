//! Shape checks, each one line at the head of a kernel.

use crate::KernelError;

/// The checks of one kernel, which know its name.
#[derive(Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    pub(crate) fn equal(
        self,
        argument: &'static str,
        actual: usize,
        expected: usize,
    ) -> Result<(), KernelError> {
        if actual == expected {
            return Ok(());
        }
        Err(KernelError::Shape {
            kernel: self.0,
            argument,
            expected,
            actual,
        })
    }

    /// `actual / multiple`, which must leave no remainder.
    pub(crate) fn quotient(
        self,
        argument: &'static str,
        actual: usize,
        multiple: usize,
    ) -> Result<usize, KernelError> {
        if multiple != 0 && actual.is_multiple_of(multiple) {
            return Ok(actual / multiple);
        }
        Err(KernelError::NotMultiple {
            kernel: self.0,
            argument,
            multiple,
            actual,
        })
    }

    pub(crate) fn non_zero(self, argument: &'static str, actual: usize) -> Result<(), KernelError> {
        if actual != 0 {
            return Ok(());
        }
        Err(KernelError::Zero {
            kernel: self.0,
            argument,
        })
    }

    pub(crate) fn at_most(
        self,
        argument: &'static str,
        actual: usize,
        limit: usize,
    ) -> Result<(), KernelError> {
        if actual <= limit {
            return Ok(());
        }
        Err(KernelError::OutOfRange {
            kernel: self.0,
            argument,
            limit,
            actual,
        })
    }

    /// `index < len`, reported with the largest index allowed.
    pub(crate) fn index(
        self,
        argument: &'static str,
        index: usize,
        len: usize,
    ) -> Result<(), KernelError> {
        if index < len {
            return Ok(());
        }
        Err(KernelError::OutOfRange {
            kernel: self.0,
            argument,
            limit: len.saturating_sub(1),
            actual: index,
        })
    }

    /// Whether what is read from `position` on is still there, where all before `kept` is gone.
    pub(crate) fn kept(
        self,
        argument: &'static str,
        position: usize,
        kept: usize,
    ) -> Result<(), KernelError> {
        if position >= kept {
            return Ok(());
        }
        Err(KernelError::LeftBehind {
            kernel: self.0,
            argument,
            position,
            kept,
        })
    }

    /// The product of `factors`, which must fit the address space.
    pub(crate) fn product<const N: usize>(
        self,
        argument: &'static str,
        factors: [usize; N],
    ) -> Result<usize, KernelError> {
        factors
            .into_iter()
            .try_fold(1usize, usize::checked_mul)
            .ok_or(KernelError::Overflow {
                kernel: self.0,
                argument,
            })
    }

    /// `a + b`, which must fit a `usize`.
    pub(crate) fn sum(
        self,
        argument: &'static str,
        a: usize,
        b: usize,
    ) -> Result<usize, KernelError> {
        a.checked_add(b).ok_or(KernelError::Overflow {
            kernel: self.0,
            argument,
        })
    }

    pub(crate) fn parameter(
        self,
        argument: &'static str,
        value: f32,
        holds: bool,
        expected: &'static str,
    ) -> Result<(), KernelError> {
        if holds {
            return Ok(());
        }
        Err(KernelError::Parameter {
            kernel: self.0,
            argument,
            value,
            expected,
        })
    }
}
