//! A weight matrix, borrowed from the bytes of a file.

use std::ops::Range;

use super::block::first_bad_scale;
use super::{Activations, Format, dequantise};
use crate::KernelError;
use crate::check::Check;

/// A row-major matrix of weights in any [`Format`], borrowed without copying.
///
/// A row is one output of a projection: `y[r] = W[r, :] · x`. The constructor checks that whole
/// blocks fill the rows and that the bytes are exactly as many as the rows need, so what reads a
/// row afterwards needs no check.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    format: Format,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    bytes: &'a [u8],
    activations: Activations,
}

/// Where a scale is not a finite number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadScale {
    /// The row.
    pub row: usize,
    /// The block in that row; the element, for a format without blocks.
    pub block: usize,
}

impl<'a> Matrix<'a> {
    /// A view of `bytes` as `rows` rows of `cols` elements.
    ///
    /// # Errors
    /// If a dimension is zero, a row ends inside a block, the size overflows or `bytes` is not
    /// exactly that long.
    pub fn new(
        format: Format,
        rows: usize,
        cols: usize,
        bytes: &'a [u8],
    ) -> Result<Self, KernelError> {
        let check = Check("Matrix::new");
        check.non_zero("rows", rows)?;
        check.non_zero("cols", cols)?;
        let blocks = check.quotient("cols", cols, format.block_elems())?;
        // Elements are counted too, so that code which multiplies `rows` by `cols` can't overflow.
        check.product("rows * cols", [rows, cols])?;
        let row_bytes = check.product("bytes", [blocks, format.block_bytes()])?;
        let total = check.product("bytes", [rows, row_bytes])?;
        check.equal("bytes.len()", bytes.len(), total)?;
        Ok(Self {
            format,
            rows,
            cols,
            row_bytes,
            bytes,
            activations: Activations::default(),
        })
    }

    /// The same matrix, with products that take their activations so.
    #[must_use]
    pub fn with_activations(self, activations: Activations) -> Self {
        Self {
            activations,
            ..self
        }
    }

    /// A view of `values` as `rows` rows of `cols` elements.
    ///
    /// # Errors
    /// As [`Matrix::new`].
    pub fn from_f32(rows: usize, cols: usize, values: &'a [f32]) -> Result<Self, KernelError> {
        Self::new(Format::F32, rows, cols, bytemuck::cast_slice(values))
    }

    /// How the elements are stored.
    #[inline]
    pub fn format(&self) -> Format {
        self.format
    }

    /// How products take their activations.
    #[inline]
    pub fn activations(&self) -> Activations {
        self.activations
    }

    /// Rows: outputs of the projection.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: inputs of the projection.
    #[inline]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The size of the whole matrix in bytes: what one pass over it reads.
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of one row.
    ///
    /// # Errors
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Result<&'a [u8], KernelError> {
        Check("Matrix::row").index("row", row, self.rows)?;
        Ok(self.rows_bytes(row..row + 1))
    }

    /// Dequantises one row, `[cols]`.
    ///
    /// # Errors
    /// If there is no such row or `out` is not `cols` long.
    pub fn dequantise_row(&self, row: usize, out: &mut [f32]) -> Result<(), KernelError> {
        let check = Check("Matrix::dequantise_row");
        check.index("row", row, self.rows)?;
        check.equal("out.len()", out.len(), self.cols)?;
        dequantise(self.format, self.rows_bytes(row..row + 1), out);
        Ok(())
    }

    /// Looks for the first scale that is NaN or infinite; in a format without blocks, for the
    /// first such element. Reads the whole matrix.
    pub fn find_bad_scale(&self) -> Option<BadScale> {
        let blocks_per_row = self.cols / self.format.block_elems();
        let index = first_bad_scale(self.format, self.bytes)?;
        Some(BadScale {
            row: index / blocks_per_row,
            block: index % blocks_per_row,
        })
    }

    /// The bytes of consecutive rows, which the caller has checked to exist.
    #[inline(always)]
    pub(crate) fn rows_bytes(&self, rows: Range<usize>) -> &'a [u8] {
        &self.bytes[rows.start * self.row_bytes..rows.end * self.row_bytes]
    }
}
