//! A GGUF writer that writes whatever it is told, and a walker that finds where things are in a
//! file: both made from the specification, sharing nothing with the reader under test.

use std::ops::Range;

pub const U8: u32 = 0;
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;

pub fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

pub fn array(elem: u32, len: u64, bytes: &[u8]) -> Vec<u8> {
    [&elem.to_le_bytes()[..], &len.to_le_bytes(), bytes].concat()
}

pub fn strings(items: &[&str]) -> Vec<u8> {
    let bytes: Vec<u8> = items.iter().flat_map(|s| string(s.as_bytes())).collect();
    array(STRING, items.len() as u64, &bytes)
}

pub struct Info {
    pub name: String,
    pub dims: Vec<u64>,
    pub ty: u32,
    pub offset: u64,
}

/// A file to be written. `counts` override what is true.
pub struct Writer {
    pub version: u32,
    pub n_tensors: Option<u64>,
    pub n_metadata: Option<u64>,
    pub metadata: Vec<(Vec<u8>, u32, Vec<u8>)>,
    pub tensors: Vec<Info>,
    pub data: Vec<u8>,
}

impl Writer {
    pub fn new() -> Self {
        Self {
            version: 3,
            n_tensors: None,
            n_metadata: None,
            metadata: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }

    pub fn kv(mut self, key: &str, ty: u32, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref().to_vec();
        self.metadata.push((key.as_bytes().to_vec(), ty, value));
        self
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.kv(key, STRING, string(value.as_bytes()))
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.kv(key, U32, value.to_le_bytes())
    }

    pub fn tensor(mut self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Self {
        self.tensors.push(Info {
            name: name.into(),
            dims: dims.to_vec(),
            ty,
            offset,
        });
        self
    }

    pub fn data(mut self, bytes: usize) -> Self {
        self.data = vec![0; bytes];
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(
            self.n_tensors
                .unwrap_or(self.tensors.len() as u64)
                .to_le_bytes(),
        );
        out.extend(
            self.n_metadata
                .unwrap_or(self.metadata.len() as u64)
                .to_le_bytes(),
        );
        for (key, ty, value) in &self.metadata {
            out.extend(string(key));
            out.extend(ty.to_le_bytes());
            out.extend(value);
        }
        for info in &self.tensors {
            out.extend(string(info.name.as_bytes()));
            out.extend((info.dims.len() as u32).to_le_bytes());
            out.extend(info.dims.iter().flat_map(|d| d.to_le_bytes()));
            out.extend(info.ty.to_le_bytes());
            out.extend(info.offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }
}

/// Where the parts of a well-formed file are.
pub struct Layout {
    /// Key, its value type id, and the bytes of the value.
    pub metadata: Vec<(String, u32, Range<usize>)>,
    pub tensors: Vec<TensorAt>,
    /// End of the tensor descriptions.
    pub header_end: usize,
    pub data: usize,
    /// Every place where one field ends and the next begins.
    pub boundaries: Vec<usize>,
}

pub struct TensorAt {
    pub name: String,
    pub name_at: usize,
    pub n_dims_at: usize,
    pub dims_at: usize,
    pub type_at: usize,
    pub offset_at: usize,
    /// Its first byte in the file.
    pub data_at: usize,
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    boundaries: Vec<usize>,
}

impl Walk<'_> {
    fn skip(&mut self, n: usize) -> usize {
        let at = self.at;
        self.boundaries.push(at);
        self.at += n;
        at
    }

    fn u32(&mut self) -> u32 {
        let at = self.skip(4);
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        let at = self.skip(8);
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn string(&mut self) -> String {
        let len = self.u64() as usize;
        let at = self.skip(len);
        String::from_utf8_lossy(&self.bytes[at..at + len]).into_owned()
    }

    fn value(&mut self, ty: u32) {
        match ty {
            0 | 1 | 7 => drop(self.skip(1)),
            2 | 3 => drop(self.skip(2)),
            4..=6 => drop(self.skip(4)),
            8 => drop(self.string()),
            9 => {
                let elem = self.u32();
                for _ in 0..self.u64() {
                    self.value(elem);
                }
            }
            10..=12 => drop(self.skip(8)),
            _ => panic!("value type {ty}"),
        }
    }
}

impl Layout {
    pub fn of(bytes: &[u8]) -> Self {
        let mut walk = Walk {
            bytes,
            at: 0,
            boundaries: Vec::new(),
        };
        walk.skip(4);
        assert_eq!(walk.u32(), 3);
        let (n_tensors, n_metadata) = (walk.u64(), walk.u64());
        let mut metadata = Vec::new();
        for _ in 0..n_metadata {
            let (key, ty) = (walk.string(), walk.u32());
            let start = walk.at;
            walk.value(ty);
            metadata.push((key, ty, start..walk.at));
        }
        let mut tensors: Vec<TensorAt> = Vec::new();
        for _ in 0..n_tensors {
            let name_at = walk.at;
            let name = walk.string();
            let n_dims_at = walk.at;
            let n_dims = walk.u32() as usize;
            let dims_at = walk.skip(8 * n_dims);
            let type_at = walk.skip(4);
            let offset_at = walk.at;
            let data_at = walk.u64() as usize;
            tensors.push(TensorAt {
                name,
                name_at,
                n_dims_at,
                dims_at,
                type_at,
                offset_at,
                data_at,
            });
        }
        let header_end = walk.at;
        let data = header_end.next_multiple_of(32);
        for tensor in &mut tensors {
            tensor.data_at += data;
        }
        let mut boundaries = walk.boundaries;
        boundaries.extend([header_end, data]);
        boundaries.extend(tensors.iter().map(|t| t.data_at));
        Self {
            metadata,
            tensors,
            header_end,
            data,
            boundaries,
        }
    }

    pub fn value(&self, key: &str) -> Range<usize> {
        let found = self.metadata.iter().find(|(k, ..)| k == key);
        found.unwrap_or_else(|| panic!("no {key}")).2.clone()
    }

    pub fn tensor(&self, name: &str) -> &TensorAt {
        self.tensors.iter().find(|t| t.name == name).unwrap()
    }
}

/// Overwrites bytes.
pub fn patch(bytes: &mut [u8], at: usize, with: impl AsRef<[u8]>) {
    let with = with.as_ref();
    bytes[at..at + with.len()].copy_from_slice(with);
}
