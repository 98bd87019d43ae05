//! Tensors, borrowed from the file.

use super::cursor::Cursor;
use super::{GgmlType, GgufError};
use brick_kernels::quant::Matrix;

/// Most dimensions a tensor can have (`GGML_MAX_DIMS`).
const MAX_DIMS: usize = 4;
/// Longest tensor name in bytes (the specification's limit).
const MAX_NAME: usize = 64;
/// Least bytes a tensor's description takes: name length, dimension count, one dimension,
/// type, offset, and one byte of name.
pub(super) const MIN_INFO_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// One tensor: its description and, untouched until read, its bytes in the file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    name: &'a str,
    dims: [u64; MAX_DIMS],
    n_dims: usize,
    ty: GgmlType,
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Its name, such as `blk.0.attn_q.weight`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its dimensions, one to four, fastest-varying first as in ggml: a weight that maps
    /// `n_in` values to `n_out` is `[n_in, n_out]`, `n_out` rows of `n_in` elements.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.n_dims]
    }

    /// The type of its elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.ty
    }

    /// Number of elements: the product of the dimensions, which was checked to fit.
    pub fn n_elems(&self) -> u64 {
        self.dims().iter().product()
    }

    /// Where its bytes start, counted from the start of the data section.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its bytes, exactly as many as dimensions and type ask for. In a memory-mapped file the
    /// first byte is aligned to the file's alignment.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The tensor as a matrix for the kernels: rows along the first dimension, all other
    /// dimensions together count them (a vector is one row).
    ///
    /// # Errors
    /// [`GgufError::NoKernel`] where no kernel knows the type; [`GgufError::Matrix`].
    pub fn matrix(&self) -> Result<Matrix<'a>, GgufError> {
        let name = || self.name.to_owned();
        let format = self.ty.format().ok_or_else(|| GgufError::NoKernel {
            name: name(),
            ty: self.ty.name(),
        })?;
        // The bytes are in memory, so the counts fit; if they did not, the length would differ.
        let cols = self.dims[0] as usize;
        let rows = self.dims()[1..].iter().product::<u64>() as usize;
        Matrix::new(format, rows, cols, self.bytes)
            .map_err(|why| GgufError::Matrix { name: name(), why })
    }
}

/// What a file says of a tensor, checked in itself but not yet against the data section.
pub(super) struct TensorInfo<'a> {
    name: &'a str,
    dims: [u64; MAX_DIMS],
    n_dims: usize,
    ty: GgmlType,
    offset: u64,
    size: u64,
}

impl<'a> TensorInfo<'a> {
    /// Reads the description of tensor number `index`.
    pub(super) fn read(cursor: &mut Cursor<'a>, index: u64) -> Result<Self, GgufError> {
        let name = read_name(cursor, index)?;
        let named = || name.to_owned();
        let n_dims = cursor.u32("a tensor's dimension count")?;
        let n = n_dims as usize;
        if !(1..=MAX_DIMS).contains(&n) {
            return Err(GgufError::DimCount {
                name: named(),
                n_dims,
            });
        }
        let mut dims = [0; MAX_DIMS];
        for dim in &mut dims[..n] {
            *dim = cursor.u64("a tensor's dimensions")?;
        }
        let id = cursor.u32("a tensor's type")?;
        let offset = cursor.u64("a tensor's offset")?;
        let ty =
            GgmlType::from_id(id).ok_or_else(|| GgufError::TensorType { name: named(), id })?;
        let size = size(name, &dims[..n], ty)?;
        Ok(Self {
            name,
            dims,
            n_dims: n,
            ty,
            offset,
            size,
        })
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// Finds the tensor's bytes in the data section.
    pub(super) fn locate(&self, data: &'a [u8], alignment: u64) -> Result<Tensor<'a>, GgufError> {
        if !self.offset.is_multiple_of(alignment) {
            return Err(GgufError::Misaligned {
                name: self.name.to_owned(),
                offset: self.offset,
                alignment,
            });
        }
        let range = self.offset.checked_add(self.size).and_then(|end| {
            let start = usize::try_from(self.offset).ok()?;
            data.get(start..usize::try_from(end).ok()?)
        });
        let Some(bytes) = range else {
            return Err(GgufError::PastEnd {
                name: self.name.to_owned(),
                offset: self.offset,
                size: self.size,
                have: data.len() as u64,
            });
        };
        Ok(Tensor {
            name: self.name,
            dims: self.dims,
            n_dims: self.n_dims,
            ty: self.ty,
            offset: self.offset,
            bytes,
        })
    }
}

fn read_name<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<&'a str, GgufError> {
    let fault = match cursor.string("a tensor's name")? {
        [] => "empty",
        name if name.len() > MAX_NAME => "longer than 64 bytes",
        name => match std::str::from_utf8(name) {
            Ok(name) => return Ok(name),
            Err(_) => "not UTF-8",
        },
    };
    Err(GgufError::TensorName { index, fault })
}

/// Bytes of a tensor of these dimensions; refuses zeros, overflow and torn blocks.
fn size(name: &str, dims: &[u64], ty: GgmlType) -> Result<u64, GgufError> {
    if dims.contains(&0) {
        return Err(GgufError::ZeroDim {
            name: name.to_owned(),
            dims: dims.to_vec(),
        });
    }
    if !dims[0].is_multiple_of(ty.block_elems()) {
        return Err(GgufError::PartialBlock {
            name: name.to_owned(),
            row: dims[0],
            ty: ty.name(),
            block: ty.block_elems(),
        });
    }
    let elems = dims.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim));
    elems
        .and_then(|elems| ty.size_of(elems))
        .ok_or_else(|| GgufError::SizeOverflow {
            name: name.to_owned(),
            dims: dims.to_vec(),
        })
}
