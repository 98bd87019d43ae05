//! The one switch: what an annotated body becomes, with `visualization` and without.
//!
//! `macro_rules!` of this crate, not a feature of the macro crate: one build of a proc macro
//! can serve a host and a target build of the runtime that differ in features, and a
//! `cfg` in the expansion would be read against the user's crate.
//!
//! `#[brick]` hands over nine groups, the last being the untouched body:
//!
//! ```text
//! __brick! {
//!     sync                                   // or future, never, scoped
//!     { impl ..::Claim<0> for ..::X }        // spanned at the id
//!     { "..", 0 }                            // the end of Claim::TEXT, the backend
//!     { .flops(expr).requires(expr, "..") }  // Entry's methods
//!     { let __brick_out = &mut *out; }       // parameters set aside for the checks
//!     { || -> R }                            // or `{async move} R`
//!     { let out = __brick_out; }             // and given back to the body
//!     { __brick_ret: R; .. }                 // the post-checks, if there are any
//!     { body }
//! }
//! ```

/// What an annotated body becomes: timed and checked.
#[cfg(feature = "visualization")]
#[doc(hidden)]
#[macro_export]
macro_rules! __brick {
    // A body whose result nothing looks at.
    (sync $claim:tt $info:tt {$($enter:tt)*} {} {$($head:tt)*} {} {} $body:tt) => {
        let call = $crate::__claim!($claim $info) $($enter)* .start();
        let ret = $crate::__private::once($($head)* $body);
        call.end();
        ret
    };
    (sync $claim:tt $info:tt {$($enter:tt)*} {$($aside:tt)*} {$($head:tt)*} {$($inner:tt)*}
        {$ret:ident: $($post:tt)*} $body:tt) => {
        let call = $crate::__claim!($claim $info) $($enter)*;
        $($aside)*
        let call = call.start();
        let $ret = $crate::__private::once($($head)* { $($inner)* $body });
        let post = call.exit();
        $crate::__post!(post $ret: $($post)*);
        $ret
    };
    // `None::<R>` pins the type that `?` and coercions need: no async block can name it.
    (future $claim:tt $info:tt {$($enter:tt)*} {} {{$($head:tt)*} $($ty:tt)*} {} {} $body:tt) => {
        let call = $crate::__claim!($claim $info) $($enter)* .start_async();
        call.run($($head)* {
            if let ::core::option::Option::Some(ret) = ::core::option::Option::None::<$($ty)*> {
                return ret;
            }
            $body
        }).await.0
    };
    (future $claim:tt $info:tt {$($enter:tt)*} {$($aside:tt)*} {{$($head:tt)*} $($ty:tt)*}
        {$($inner:tt)*} {$ret:ident: $($post:tt)*} $body:tt) => {
        let call = $crate::__claim!($claim $info) $($enter)*;
        $($aside)*
        let ($ret, post) = call.start_async().run($($head)* {
            if let ::core::option::Option::Some(ret) = ::core::option::Option::None::<$($ty)*> {
                return ret;
            }
            $($inner)*
            $body
        }).await;
        $crate::__post!(post $ret: $($post)*);
        $ret
    };
    // `-> !`: it leaves by unwinding or not at all.
    (never $claim:tt $info:tt {$($enter:tt)*} {} $head:tt {} {} $body:tt) => {
        let _call = $crate::__claim!($claim $info) $($enter)* .start();
        $body
    };
    // `#[track_caller]`: in a closure, `Location::caller()` would be ours.
    (scoped $claim:tt $info:tt {$($enter:tt)*} {} $head:tt {} {} $body:tt) => {
        let _call = $crate::__claim!($claim $info) $($enter)* .start().exit_on_drop();
        $body
    };
}

/// The claim of an id, and the opened call.
#[cfg(feature = "visualization")]
#[doc(hidden)]
#[macro_export]
macro_rules! __claim {
    ({$($claim:tt)*} {$text:literal, $backend:expr}) => {{
        const TEXT: &str = ::core::concat!(::core::module_path!(), $text);
        #[allow(non_local_definitions, unused_qualifications)]
        $($claim)* {
            const TEXT: &'static str = TEXT;
        }
        static SITE: $crate::__private::Site = $crate::__private::Site::of_claim(TEXT, $backend);
        SITE.open()
    }};
}

/// The post-checks of one call: of parameters, of the returned value, and `ensures`.
#[cfg(feature = "visualization")]
#[doc(hidden)]
#[macro_export]
macro_rules! __post {
    ($post:ident $ret:ident: $known:ident {$($ty:tt)*}
        {$([$($cfg:tt)*] $name:literal, $value:expr, {$($rules:tt)*};)*}
        {$($ret_name:literal, $ret_value:expr, {$($ret_rules:tt)*};)?}
        {$($text:literal, $holds:expr;)?}
    ) => {
        if let ::core::option::Option::Some(mut verdict) = $post.checks() {
            $($($cfg)* verdict.tensor($name, $value, const { &$crate::Rules::$($rules)* });)*
            $(verdict.tensor($ret_name, $ret_value, const { &$crate::Rules::$($ret_rules)* });)?
            $(verdict.ensures($crate::__private::holds(&$ret, $holds), $text);)?
            verdict.finish();
        }
    };
}

/// What an annotated body becomes: itself, beside a claim that emits no code.
#[cfg(not(feature = "visualization"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __brick {
    ($kind:ident {$($claim:tt)*} {$text:literal, $backend:expr}
        {} $aside:tt $head:tt $inner:tt {} $body:tt
    ) => {
        #[allow(non_local_definitions, unused_qualifications)]
        $($claim)* {
            const TEXT: &'static str = ::core::concat!(::core::module_path!(), $text);
        }
        $body
    };
    // What else is declared of the call is type-checked in code that is never built.
    ($kind:ident {$($claim:tt)*} {$text:literal, $backend:expr}
        {$($enter:tt)*} $aside:tt $head:tt $inner:tt
        {$(
            $ret:ident: $known:ident {$($ty:tt)*}
            {$([$($cfg:tt)*] $name:literal, $value:expr, $rules:tt;)*}
            $($of_ret:tt)*
        )?}
        $body:tt
    ) => {
        #[allow(non_local_definitions, unused_qualifications)]
        $($claim)* {
            const TEXT: &'static str = ::core::concat!(::core::module_path!(), $text);
        }
        // In a closure: a call that could unwind past the function's own values, even one in a
        // dead block, would give an unoptimised function a landing pad.
        if false {
            let _ = || {
                let _ = $crate::__private::Declared $($enter)*;
                $(
                    $($($cfg)* $crate::__private::checkable($value);)*
                    $crate::__returned!($known $ret {$($ty)*} $($of_ret)*);
                )?
            };
        }
        $body
    };
}

/// Type-checks what looks at the returned value.
#[cfg(not(feature = "visualization"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __returned {
    ($known:ident $ret:ident $ty:tt {} {}) => {};
    (known $ret:ident {$($ty:tt)*} {$($name:literal, $value:expr, $rules:tt;)?}
        {$($text:literal, $holds:expr;)?}
    ) => {
        let $ret: $($ty)* = $crate::__private::never();
        $($crate::__private::checkable($value);)?
        $($crate::__private::holds(&$ret, $holds);)?
    };
    // A type with `impl Trait` in it cannot be named: what looks at the value is checked in
    // builds with `visualization` only.
    (opaque $($unnamed:tt)*) => {};
}

/// Stands where a call would be opened: the same methods, nothing behind them.
#[cfg(not(feature = "visualization"))]
#[derive(Debug)]
pub struct Declared;

#[cfg(not(feature = "visualization"))]
impl Declared {
    /// As `Entry::flops`.
    pub fn flops(self, _: impl crate::contract::Amount) -> Self {
        self
    }
    /// As `Entry::bytes`.
    pub fn bytes(self, _: impl crate::contract::Amount) -> Self {
        self
    }
    /// As `Entry::tokens`.
    pub fn tokens(self, _: impl crate::contract::Amount) -> Self {
        self
    }
    /// As `Entry::elements`.
    pub fn elements(self, _: impl crate::contract::Amount) -> Self {
        self
    }
    /// As `Entry::layer`.
    pub fn layer(self, _: impl crate::contract::Amount) -> Self {
        self
    }
    /// As `Entry::budget_us`.
    pub fn budget_us(self, _: impl crate::contract::Amount) -> Self {
        self
    }
    /// As `Entry::requires`.
    pub fn requires(self, _: bool, _: &'static str) -> Self {
        self
    }
}

/// Stands for a returned value that there is none of.
#[cfg(not(feature = "visualization"))]
pub fn never<T>() -> T {
    unreachable!("only type-checked")
}

/// The bound of `Verdict::tensor`, and nothing else.
#[cfg(not(feature = "visualization"))]
pub fn checkable<T: crate::Check + ?Sized>(_: &T) {}

/// Hands the returned value to an `ensures` closure; the bound tells the closure its type.
#[inline(always)]
pub fn holds<T: ?Sized>(value: &T, condition: impl FnOnce(&T) -> bool) -> bool {
    condition(value)
}

/// serde for a crate's `BrickId`, as its name, if this crate has serde.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __serde {
    ($id:ident) => {
        impl $crate::__private::serde::Serialize for $id {
            #[inline]
            fn serialize<S: $crate::__private::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> $crate::__private::serde::Deserialize<'de> for $id {
            #[inline]
            fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                $crate::__private::deserialize(deserializer)
            }
        }
    };
}

/// serde for a crate's `BrickId`, as its name, if this crate has serde.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __serde {
    ($id:ident) => {};
}
