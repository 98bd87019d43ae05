//! What `flops`, `bytes`, `tokens`, `layer` and `budget_us` may evaluate to.

/// An amount of work: what `flops`, `bytes`, `tokens` may evaluate to.
#[diagnostic::on_unimplemented(
    message = "`flops`, `bytes`, `tokens`, `elements`, `layer` and `budget_us` need a number, not a `{Self}`",
    label = "`{Self}` is not a number"
)]
pub trait Amount {
    /// The amount; negative and NaN count as 0.
    fn amount(self) -> u64;
    /// A thousand times the amount, rounded: microseconds to nanoseconds. Floats override it.
    fn thousandths(self) -> u64
    where
        Self: Sized,
    {
        self.amount().saturating_mul(1000)
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Amount for $t {
            #[inline(always)]
            fn amount(self) -> u64 {
                u64::try_from(self.max(0)).unwrap_or(u64::MAX)
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Amount for $t {
            #[inline(always)]
            fn amount(self) -> u64 {
                // Saturates; NaN becomes 0.
                self as u64
            }
            #[inline(always)]
            fn thousandths(self) -> u64 {
                (self * 1000.0).round() as u64
            }
        }
    )*};
}
floats!(f32 f64);

#[cfg(test)]
mod tests {
    use super::Amount;

    #[test]
    fn what_is_no_amount_is_none() {
        assert_eq!((-5i32).amount(), 0);
        assert_eq!(u128::MAX.amount(), u64::MAX);
        assert_eq!(300u16.amount(), 300);
        assert_eq!(f64::NAN.amount(), 0);
        assert_eq!((-1.0f32).thousandths(), 0);
        assert_eq!(0.25f64.thousandths(), 250);
        assert_eq!(7usize.thousandths(), 7000);
        assert_eq!(u64::MAX.thousandths(), u64::MAX);
    }
}
