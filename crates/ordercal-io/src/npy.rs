//! One numpy array.
//!
//! The format is described in numpy's NEP 1: a magic number, a version, the length of the header, a Python dict
//! literal with `descr`, `fortran_order` and `shape`, then the values.

use std::io::Read;
use std::path::Path;

use crate::archive::UnreadableType;
use crate::array::ElementType;
use crate::array_reader::{FlatFile, Layout};
use crate::data_ref;
use crate::error::{Error, Result, clean};
use crate::formats::{Codec, Format, OutputLayout, Reading, Writing};
use crate::writer::{EncodedSink, OutputSpec};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Array(|path| Ok(Box::new(open(path)?))),
    write: Some(Writing {
        layout: OutputLayout::Array,
        create: |file, spec| EncodedSink::flat(file, &header(spec)),
    }),
};

const MAGIC: &[u8] = b"\x93NUMPY";
/// numpy writes headers of 118 bytes and refuses to read more than 10,000.
const LONGEST_HEADER: usize = 1 << 16;
/// Text that pads every value to more characters than this would take too much memory.
const LONGEST_TEXT: u32 = 1 << 14;

/// A header that was read.
pub(crate) struct Header {
    pub(crate) layout: Result<Layout, UnreadableType>,
    pub(crate) shape: Vec<usize>,
    /// Bytes before the first value.
    pub(crate) length: u64,
}

/// Reads a header. `available` is the size of the header and the values together.
pub(crate) fn read_header(
    reader: &mut impl Read,
    path: &Path,
    what: &str,
    available: u64,
) -> Result<Header> {
    let truncated = |needed: u64| {
        Error::truncated(
            path,
            format!("the header of `{what}`"),
            0,
            u128::from(needed),
            available,
        )
    };
    let malformed = |offset: usize, problem: &'static str| Error::Malformed {
        path: path.to_path_buf(),
        what: format!("the header of `{what}`"),
        offset: offset as u64,
        problem,
    };

    let mut start = [0_u8; 12];
    let got = read_up_to(reader, &mut start[..10]).map_err(|e| Error::io(path, "read", e))?;
    if !start[..got].starts_with(&MAGIC[..MAGIC.len().min(got)]) {
        return Err(Error::wrong_magic(
            path,
            Format::Npy,
            start[..got.min(8)].to_vec(),
        ));
    }
    if got < 10 {
        return Err(truncated(10));
    }
    let (length, before) = match start[6] {
        1 => (u32::from(u16::from_le_bytes([start[8], start[9]])), 10),
        2 | 3 => {
            let got = read_up_to(reader, &mut start[10..12]);
            if got.map_err(|e| Error::io(path, "read", e))? < 2 {
                return Err(truncated(12));
            }
            let length = [start[8], start[9], start[10], start[11]];
            (u32::from_le_bytes(length), 12)
        }
        _ => return Err(malformed(6, "this version of the format is not known")),
    };
    if length as usize > LONGEST_HEADER {
        return Err(malformed(8, "the header claims to be longer than 64 KiB"));
    }
    let mut text = vec![0_u8; length as usize];
    let got = read_up_to(reader, &mut text).map_err(|e| Error::io(path, "read", e))?;
    if got < text.len() {
        return Err(truncated(before + u64::from(length)));
    }
    let dict =
        parse_dict(&text).map_err(|(at, problem)| malformed(before as usize + at, problem))?;
    let length = before + u64::from(length);
    let layout = dict.descr.and_then(|descr| {
        let (dtype, big_endian) = parse_descr(&descr)?;
        Ok(Layout {
            dtype,
            big_endian,
            fortran: dict.fortran,
            shape: dict.shape.clone(),
        })
    });
    Ok(Header {
        layout,
        shape: dict.shape,
        length,
    })
}

/// Reads until `buffer` is full or the reader at its end.
fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match reader.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Parses numpy's name of a type, such as `<f4` or `|b1`. The second result is whether it is big-endian.
pub(crate) fn parse_descr(descr: &str) -> Result<(ElementType, bool), UnreadableType> {
    let other = || UnreadableType::Other(clean(&format!("`{descr}`")));
    let (order, code) = match descr.as_bytes().first() {
        Some(order @ (b'<' | b'>' | b'|' | b'=')) => (*order, &descr[1..]),
        _ => (b'|', descr),
    };
    let big_endian = order == b'>' || (order == b'=' && cfg!(target_endian = "big"));
    let dtype = match code {
        "b1" | "?" => ElementType::Bool,
        "i1" => ElementType::I8,
        "i2" => ElementType::I16,
        "i4" => ElementType::I32,
        "i8" => ElementType::I64,
        "u1" => ElementType::U8,
        "u2" => ElementType::U16,
        "u4" => ElementType::U32,
        "u8" => ElementType::U64,
        "f2" => ElementType::F16,
        "f4" => ElementType::F32,
        "f8" => ElementType::F64,
        // numpy has no name for the brain floats of ml_dtypes, which saves them as two bytes of any kind.
        "V2" => ElementType::Bf16,
        _ if code.starts_with('O') => return Err(UnreadableType::Object),
        _ => {
            let length = code.get(1..).and_then(|n| n.parse::<u32>().ok());
            let length = length.filter(|&n| n > 0 && n <= LONGEST_TEXT);
            let length = length.ok_or_else(other)? as usize;
            match code.as_bytes()[0] {
                b'U' => ElementType::Unicode(length),
                b'S' | b'a' => ElementType::Bytes(length),
                _ => return Err(other()),
            }
        }
    };
    Ok((dtype, big_endian))
}

struct Dict {
    descr: Result<String, UnreadableType>,
    fortran: bool,
    shape: Vec<usize>,
}

/// A position in the header, and what is wrong there.
type Problem = (usize, &'static str);

fn parse_dict(text: &[u8]) -> Result<Dict, Problem> {
    let mut parser = Parser { text, at: 0 };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    parser.expect(b'{')?;
    while !parser.skip(b'}') {
        let key_at = parser.at;
        let key = parser.string()?;
        parser.expect(b':')?;
        match key.as_str() {
            "descr" if parser.peek() == Some(b'[') => {
                parser.brackets()?;
                descr = Some(Err(UnreadableType::Other(
                    "a record of several fields".into(),
                )));
            }
            "descr" => descr = Some(Ok(parser.string()?)),
            "fortran_order" => fortran = Some(parser.boolean()?),
            "shape" => shape = Some(parser.tuple()?),
            _ => return Err((key_at, "the header has a key that the format does not")),
        }
        if !parser.skip(b',') {
            parser.expect(b'}')?;
            break;
        }
    }
    match (descr, fortran, shape) {
        (Some(descr), Some(fortran), Some(shape)) => Ok(Dict {
            descr,
            fortran,
            shape,
        }),
        _ => Err((0, "the header lacks one of descr, fortran_order and shape")),
    }
}

/// A parser for those Python literals that numpy writes.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.skip(byte) {
            Ok(())
        } else {
            Err((
                self.at,
                "the header is not the Python dict that it should be",
            ))
        }
    }

    fn string(&mut self) -> Result<String, Problem> {
        let start = self.at;
        let Some(quote @ (b'\'' | b'"')) = self.peek() else {
            return Err((start, "a quoted name was expected"));
        };
        let rest = &self.text[self.at + 1..];
        let length = rest.iter().position(|&b| b == quote);
        let length = length.ok_or((start, "a quoted name does not end"))?;
        self.at += length + 2;
        String::from_utf8(rest[..length].to_vec()).map_err(|_| (start, "a name is not UTF-8"))
    }

    fn boolean(&mut self) -> Result<bool, Problem> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err((self.at, "fortran_order must be True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<usize>, Problem> {
        let mut extents = Vec::new();
        self.expect(b'(')?;
        while !self.skip(b')') {
            let start = self.at;
            let digits = self.text[start..].iter().take_while(|b| b.is_ascii_digit());
            self.at += digits.count();
            let digits = std::str::from_utf8(&self.text[start..self.at]).unwrap_or("");
            let extent = digits.parse();
            extents.push(extent.map_err(|_| (start, "the shape must hold counts"))?);
            // Python 2 wrote long integers with an L.
            self.skip(b'L');
            if !self.skip(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(extents)
    }

    /// Skips a list, with the lists in it.
    fn brackets(&mut self) -> Result<(), Problem> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err((start, "a list in the header does not end"))
    }
}

/// Opens a file as an archive of one array, called `array`.
fn open(path: &Path) -> Result<FlatFile> {
    let (mut file, size) = data_ref::open(path)?;
    let header = read_header(&mut file, path, "array", size)?;
    let mut file = FlatFile::new(path, size);
    file.add("array", header.layout, header.shape, header.length)?;
    Ok(file)
}

/// Version 1 of the header, padded so that the values start at a multiple of 64, as numpy writes it.
pub(crate) fn header(spec: &OutputSpec) -> Vec<u8> {
    let mut dict = format!(
        "{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}, {}), }}",
        spec.dtype.size(),
        spec.rows.unwrap_or(0),
        spec.classes
    );
    let unpadded = 10 + dict.len() + 1;
    dict.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    dict.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend((dict.len() as u16).to_le_bytes());
    header.extend(dict.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dict(text: &str) -> Result<Dict, Problem> {
        parse_dict(text.as_bytes())
    }

    #[test]
    fn headers_of_numpy_and_of_others_are_read() {
        let d = dict("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n")
            .unwrap();
        assert_eq!((d.fortran, d.shape), (false, vec![3, 4]));
        let d = dict("{\"shape\":(5L,),\"fortran_order\":True,\"descr\":\">i8\"}").unwrap();
        assert_eq!((d.fortran, d.shape), (true, vec![5]));
        let d = dict("{'descr': '|b1', 'fortran_order': False, 'shape': ()}").unwrap();
        assert_eq!(d.shape, Vec::<usize>::new());
        let d = dict(
            "{'descr': [('a', '<f4'), ('b', [('c', '<i2')])], 'fortran_order': False, 'shape': (1,)}",
        );
        assert!(matches!(d.unwrap().descr, Err(UnreadableType::Other(_))));
    }

    #[test]
    fn broken_headers_are_refused_with_the_place() {
        for text in [
            "",
            "[]",
            "{",
            "{'descr'",
            "{'descr': }",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
            "{'descr': [[[, 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert!(dict(text).is_err(), "{text}");
        }
    }

    #[test]
    fn type_names_are_read() {
        assert_eq!(parse_descr("<f4").unwrap(), (ElementType::F32, false));
        assert_eq!(parse_descr(">i2").unwrap(), (ElementType::I16, true));
        assert_eq!(parse_descr("|b1").unwrap(), (ElementType::Bool, false));
        assert_eq!(parse_descr("|V2").unwrap(), (ElementType::Bf16, false));
        assert_eq!(
            parse_descr("<U5").unwrap(),
            (ElementType::Unicode(5), false)
        );
        assert_eq!(parse_descr("|S3").unwrap(), (ElementType::Bytes(3), false));
        assert_eq!(parse_descr("|O"), Err(UnreadableType::Object));
        for name in ["", "<", "<c8", "<f16", "<M8[ns]", "<U0", "|V4", "é"] {
            assert!(
                matches!(parse_descr(name), Err(UnreadableType::Other(_))),
                "{name}"
            );
        }
    }
}
