//! Which types' numbers can be checked.

use super::{Checker, Number};

/// A type whose numbers `assert` can check.
///
/// Implemented for `f32`, `f64` (and `half`'s types), and for slices, arrays, `Vec`, `Box`,
/// `Option`, tuples up to six, references, and the `Ok` of a `Result` of what is `Check` itself.
/// For a type of your own, show the checker what there is:
///
/// ```
/// use brick_runtime::{Check, Checker};
///
/// struct Cache {
///     keys: Vec<f32>,
///     values: Vec<f32>,
///     len: usize,
/// }
///
/// impl Check for Cache {
///     fn check(&self, checker: &mut Checker<'_>) {
///         checker.part("keys", &self.keys[..self.len]);
///         checker.part("values", &self.values[..self.len]);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`assert` cannot check a `{Self}`: it holds no numbers this crate knows",
    label = "`{Self}` is not checkable",
    note = "implement `brick_runtime::Check` for it, or, to check only some parameters, name them: `assert(out = \"no_nan\")`"
)]
pub trait Check {
    /// Shows every number of `self` to the checker, always in the same order.
    fn check(&self, checker: &mut Checker<'_>);

    /// Shows every number of some values. Numbers override this to be looked at in vectors, not
    /// one by one.
    #[inline]
    fn check_slice(values: &[Self], checker: &mut Checker<'_>)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.check(checker));
    }
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Check for $t {
            #[inline]
            fn check(&self, checker: &mut Checker<'_>) {
                checker.numbers(std::slice::from_ref(self));
            }
            #[inline]
            fn check_slice(values: &[$t], checker: &mut Checker<'_>) {
                checker.numbers(values);
            }
        }
    )*};
}
numbers!(f32 f64);
#[cfg(feature = "half")]
numbers!(half::f16 half::bf16);

impl<T: Check> Check for [T] {
    #[inline]
    fn check(&self, checker: &mut Checker<'_>) {
        T::check_slice(self, checker);
    }
}

impl<T: Check, const N: usize> Check for [T; N] {
    #[inline]
    fn check(&self, checker: &mut Checker<'_>) {
        T::check_slice(self, checker);
    }
    #[inline]
    fn check_slice(values: &[[T; N]], checker: &mut Checker<'_>) {
        T::check_slice(values.as_flattened(), checker);
    }
}

impl<T: Check> Check for Vec<T> {
    #[inline]
    fn check(&self, checker: &mut Checker<'_>) {
        T::check_slice(self, checker);
    }
}

macro_rules! pointers {
    ($($t:ty)*) => {$(
        impl<T: Check + ?Sized> Check for $t {
            #[inline]
            fn check(&self, checker: &mut Checker<'_>) {
                (**self).check(checker);
            }
        }
    )*};
}
pointers!(&T &mut T Box<T>);

/// Nothing where there is nothing.
impl<T: Check> Check for Option<T> {
    #[inline]
    fn check(&self, checker: &mut Checker<'_>) {
        self.iter().for_each(|value| value.check(checker));
    }
}

/// Only of an `Ok`: an error says itself what is wrong.
impl<T: Check, E> Check for Result<T, E> {
    #[inline]
    fn check(&self, checker: &mut Checker<'_>) {
        self.iter().for_each(|value| value.check(checker));
    }
}

macro_rules! tuples {
    ($(($($t:ident)*))*) => {$(
        impl<$($t: Check),*> Check for ($($t,)*) {
            #[inline]
            #[allow(non_snake_case, unused_variables, reason = "one text for every length")]
            fn check(&self, checker: &mut Checker<'_>) {
                let ($($t,)*) = self;
                $($t.check(checker);)*
            }
        }
    )*};
}
tuples!(() (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F));

// `Number` is what `checker.numbers` takes; that every number is `Check` as well, a generic
// kernel over `T: Number + Check` may rely on.
const _: fn() = || {
    fn both<T: Number + Check>() {}
    both::<f32>();
    both::<f64>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Found, Rules};

    struct Two {
        a: [f64; 2],
        b: Vec<f32>,
    }

    impl Check for Two {
        fn check(&self, checker: &mut Checker<'_>) {
            checker.part("a", &self.a);
            checker.part("b", &self.b);
        }
    }

    fn first(value: &(impl Check + ?Sized)) -> Option<(Option<&'static str>, usize)> {
        let mut checker = Checker::find(&Rules::NO_NAN);
        value.check(&mut checker);
        checker
            .found()
            .map(|Found { part, index, .. }| (part, index))
    }

    #[test]
    fn indices_run_through_containers() {
        let nan = f32::NAN;
        assert_eq!(first(&[0.0, nan][..]), Some((None, 1)));
        assert_eq!(first(&[[0.0; 3], [0.0, nan, nan]]), Some((None, 4)));
        assert_eq!(first(&vec![vec![0.0; 5], vec![nan]]), Some((None, 5)));
        assert_eq!(first(&(1.0f64, vec![0.0, nan], [nan])), Some((None, 2)));
        assert_eq!(first(&Some(Box::new([nan]))), Some((None, 0)));
        assert_eq!(first(&None::<f32>), None);
        assert_eq!(
            first(&Ok::<_, String>(&mut [0.0, nan][..])),
            Some((None, 1))
        );
        assert_eq!(first(&Err::<f32, _>("no number")), None);
        assert_eq!(first(&()), None);
    }

    #[test]
    fn parts_are_named_and_counted_from_zero() {
        let two = Two {
            a: [0.0; 2],
            b: vec![1.0, f32::NAN],
        };
        assert_eq!(first(&two), Some((Some("b"), 1)));
        assert_eq!(
            first(&[
                Two {
                    a: [0.0, f64::NAN],
                    b: vec![]
                },
                two
            ]),
            Some((Some("a"), 1))
        );
    }
}
