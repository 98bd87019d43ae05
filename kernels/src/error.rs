//! What a kernel answers when its arguments do not fit together.

/// Why a kernel refused its arguments. No kernel panics on a wrong shape or reads out of bounds:
/// every one checks first and answers with one of these.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A length or a dimension differs from what the other arguments imply.
    #[error("{kernel}: `{argument}` is {actual}, expected {expected}")]
    Shape {
        /// The kernel, or the type whose constructor refused.
        kernel: &'static str,
        /// The argument at fault, as an expression over the parameters (`x.len()`).
        argument: &'static str,
        /// The value that the other arguments imply.
        expected: usize,
        /// The value found.
        actual: usize,
    },
    /// A length or a dimension has to be a multiple of another.
    #[error("{kernel}: `{argument}` is {actual}, not a multiple of {multiple}")]
    NotMultiple {
        /// The kernel, or the type whose constructor refused.
        kernel: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// What it has to be a multiple of.
        multiple: usize,
        /// The value found.
        actual: usize,
    },
    /// A dimension is zero where that has no meaning.
    #[error("{kernel}: `{argument}` is zero")]
    Zero {
        /// The kernel, or the type whose constructor refused.
        kernel: &'static str,
        /// The argument at fault.
        argument: &'static str,
    },
    /// An index (a token id, a layer, a position) is past the end.
    #[error("{kernel}: `{argument}` is {actual}, the limit is {limit}")]
    OutOfRange {
        /// The kernel, or the type whose constructor refused.
        kernel: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The largest value allowed.
        limit: usize,
        /// The value found.
        actual: usize,
    },
    /// A position is asked for that a sliding window has left behind.
    #[error("{kernel}: `{argument}` sees position {position}, but what is kept starts at {kept}")]
    LeftBehind {
        /// The kernel.
        kernel: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The first position that would be read.
        position: usize,
        /// The first position that is kept.
        kept: usize,
    },
    /// A product of dimensions does not fit the address space.
    #[error("{kernel}: the size of `{argument}` overflows")]
    Overflow {
        /// The kernel, or the type whose constructor refused.
        kernel: &'static str,
        /// What was being sized.
        argument: &'static str,
    },
    /// The allocator has no memory for a buffer.
    #[error("{kernel}: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The type whose constructor refused.
        kernel: &'static str,
        /// The size that was asked for.
        bytes: usize,
    },
    /// A number outside the range in which the kernel is defined.
    #[error("{kernel}: `{argument}` is {value}, expected {expected}")]
    Parameter {
        /// The kernel, or the type whose constructor refused.
        kernel: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The value found.
        value: f32,
        /// The range, in words.
        expected: &'static str,
    },
    /// A value that makes the result meaningless, where a kernel must decide on values (sampling).
    #[error("{kernel}: `{argument}[{index}]` is {value}")]
    BadValue {
        /// The kernel.
        kernel: &'static str,
        /// The slice at fault.
        argument: &'static str,
        /// The position of the first bad value.
        index: usize,
        /// That value: NaN or an infinity.
        value: f32,
    },
    /// An environment variable asks for what there is not.
    #[error("{variable} is {value}: {why}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
