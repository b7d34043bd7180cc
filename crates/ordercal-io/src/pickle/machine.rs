//! The stack machine, with those instructions of protocols 0 to 5 that arrays and containers need.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::numpy::{self, ArrayNode, Constructor, TypeNode};
use super::torch::{self, TensorNode};
use crate::array::ElementType;
use crate::error::{Error, Result, clean};
use crate::formats::Format;

/// The position of a value in the machine's list of values.
pub(super) type Id = usize;

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Node {
    None,
    Bool(bool),
    /// Integers beyond 64 bits are clamped.
    Int(i64),
    Float(f64),
    /// A range of the file.
    Bytes(Range<usize>),
    /// Bytes that are not in the file as such.
    Owned(Vec<u8>),
    /// A range of the file that is UTF-8.
    Text(Range<usize>),
    /// Text that is not in the file as such.
    OwnedText(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Constructor(Constructor),
    Type(Box<TypeNode>),
    Array(Box<ArrayNode>),
    /// The class of a storage of PyTorch, which says the type of its values.
    StorageClass(ElementType),
    /// A storage of PyTorch: its type, its name in the file, and the number of its values.
    Storage {
        dtype: ElementType,
        key: String,
        count: usize,
    },
    Tensor(Box<TensorNode>),
}

/// Runs one pickle.
pub(super) struct Machine {
    path: PathBuf,
    bytes: Vec<u8>,
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Id>,
    /// The height of the stack at each open mark.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// How many more bytes instructions may create; at first the size of the file.
    allowance: usize,
    /// Where the current instruction starts, for errors.
    instruction: usize,
    /// Whether this is a pickle of PyTorch, which may refer to storages.
    tensors: bool,
}

impl Machine {
    pub(super) fn new(path: &Path, bytes: Vec<u8>) -> Self {
        Self {
            path: path.to_path_buf(),
            allowance: bytes.len(),
            bytes,
            at: 0,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            instruction: 0,
            tensors: false,
        }
    }

    /// Allows storages and tensors of PyTorch.
    pub(super) fn with_tensors(self) -> Self {
        Self {
            tensors: true,
            ..self
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id]
    }

    /// An error at the current instruction.
    pub(super) fn refuse(&self, problem: &'static str) -> Error {
        Error::Malformed {
            path: self.path.clone(),
            what: "the pickle".into(),
            offset: self.instruction as u64,
            problem,
        }
    }

    /// The text of a value; Python 2 stores it as bytes.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        match self.node(id) {
            Node::Text(range) | Node::Bytes(range) => {
                std::str::from_utf8(&self.bytes[range.clone()]).ok()
            }
            Node::Owned(bytes) => std::str::from_utf8(bytes).ok(),
            Node::OwnedText(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a value.
    pub(super) fn data(&self, id: Id) -> Option<&[u8]> {
        match self.node(id) {
            Node::Bytes(range) => Some(&self.bytes[range.clone()]),
            Node::Owned(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A tuple of arguments or of a state, none of which is long.
    pub(super) fn small_tuple(&self, id: Id) -> Option<Vec<Id>> {
        match self.node(id) {
            Node::Tuple(items) if items.len() <= 16 => Some(items.clone()),
            _ => None,
        }
    }

    /// Deducts bytes that an instruction creates from the allowance.
    pub(super) fn spend(&mut self, count: usize) -> Result<()> {
        match self.allowance.checked_sub(count) {
            Some(left) => {
                self.allowance = left;
                Ok(())
            }
            None => Err(self.refuse("the pickle creates more bytes than it has")),
        }
    }

    /// Runs the program and returns its result.
    pub(super) fn run(&mut self) -> Result<Id> {
        let marked = self.bytes.first() == Some(&0x80);
        self.run_all().map_err(|error| match error {
            // From protocol 2 on a pickle starts with a mark. Without one, a file that fails was probably no pickle.
            Error::Malformed { path, .. } | Error::Truncated { path, .. } if !marked => {
                Error::wrong_magic(
                    &path,
                    Format::Pickle,
                    self.bytes[..self.bytes.len().min(8)].to_vec(),
                )
            }
            error => error,
        })
    }

    fn run_all(&mut self) -> Result<Id> {
        loop {
            self.instruction = self.at;
            let code = self.take(1)?[0];
            if code == b'.' {
                return self.pop();
            }
            self.step(code)?;
        }
    }

    fn step(&mut self, code: u8) -> Result<()> {
        match code {
            0x80 => {
                let version = self.take(1)?[0];
                if version > 5 {
                    return Err(self.refuse("this version of the pickle protocol is not known"));
                }
            }
            // A frame: only of use for reading ahead.
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'J' | b'K' | b'M' | 0x8a | 0x8b | b'I' | b'L' => self.integer(code)?,
            b'G' => {
                let raw = self.take(8)?.try_into().expect("eight bytes were taken");
                self.push(Node::Float(f64::from_be_bytes(raw)));
            }
            b'F' => {
                let value = self.line()?.parse();
                let value = value.map_err(|_| self.refuse("a number was expected"))?;
                self.push(Node::Float(value));
            }
            b'S' | b'V' => self.line_of_text(code)?,
            b'Q' if self.tensors => {
                let id = self.pop()?;
                let storage = torch::storage(self, id)?;
                if let Node::Storage { key, .. } = &storage {
                    self.spend(key.len())?;
                }
                self.push(storage);
            }
            b'C' | b'U' => self.bytes_of(1, false)?,
            b'B' | b'T' => self.bytes_of(4, false)?,
            0x8e | 0x96 => self.bytes_of(8, false)?,
            0x8c => self.bytes_of(1, true)?,
            b'X' => self.bytes_of(4, true)?,
            0x8d => self.bytes_of(8, true)?,
            b')' => self.push(Node::Tuple(Vec::new())),
            b']' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            b't' | b'l' | b'd' | 0x85..=0x87 | b'a' | b'e' | b's' | b'u' => self.container(code)?,
            b'q' | b'r' | 0x94 | b'p' | b'h' | b'j' | b'g' => self.remember(code)?,
            b'c' => {
                let module = self.line()?.to_owned();
                let name = self.line()?.to_owned();
                self.global(&module, &name)?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Some(module), Some(name)) = (self.text(module), self.text(name)) else {
                    return Err(self.refuse("the name of a function must be text"));
                };
                let (module, name) = (module.to_owned(), name.to_owned());
                self.global(&module, &name)?;
            }
            b'R' | 0x81 => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let Node::Constructor(constructor) = *self.node(function) else {
                    return Err(self.refuse("only numpy's constructors can be called"));
                };
                let arguments = self.small_tuple(arguments);
                let arguments =
                    arguments.ok_or_else(|| self.refuse("arguments must be a tuple"))?;
                let node = numpy::construct(self, constructor, &arguments)?;
                self.push(node);
            }
            b'b' => {
                let (state, object) = (self.pop()?, self.top()?);
                numpy::set_state(self, object, state)?;
            }
            0x97 => return Err(self.refuse("the data of an array was saved outside the file")),
            // Marks a buffer as read-only.
            0x98 => {}
            _ => return Err(self.refuse("this instruction is not one that arrays need")),
        }
        Ok(())
    }

    fn integer(&mut self, code: u8) -> Result<()> {
        let value = match code {
            b'K' => i64::from(self.take(1)?[0]),
            b'M' => i64::from(u16::from_le_bytes([self.take(1)?[0], self.take(1)?[0]])),
            b'J' => {
                let raw = self.take(4)?.try_into().expect("four bytes were taken");
                i64::from(i32::from_le_bytes(raw))
            }
            // Protocol 0 has no other way to say true and false.
            b'I' if [&b"00\n"[..], b"01\n"]
                .contains(&self.bytes[self.at..].get(..3).unwrap_or(&[])) =>
            {
                let value = self.take(3)?[1] == b'1';
                self.push(Node::Bool(value));
                return Ok(());
            }
            b'I' | b'L' => {
                let line = self.line()?.trim_end_matches('L');
                let value = line.parse();
                value.map_err(|_| self.refuse("an integer was expected"))?
            }
            _ => {
                let length = self.length(if code == 0x8a { 1 } else { 4 })?;
                little_endian(self.take(length)?)
            }
        };
        self.push(Node::Int(value));
        Ok(())
    }

    /// Text of protocol 0: bytes as Python 2 shows them (S), or characters, those beyond Latin-1 escaped (V).
    fn line_of_text(&mut self, code: u8) -> Result<()> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&b| b == b'\n');
        let length = length.ok_or_else(|| self.refuse("a line does not end"))?;
        let raw = &rest[..length];
        let node = match code {
            b'S' => unquote(raw).map(Node::Owned),
            _ => unescape(raw).map(Node::OwnedText),
        };
        let node = node.ok_or_else(|| self.refuse("text is not written as it should be"))?;
        self.at += length + 1;
        self.push(node);
        Ok(())
    }

    fn bytes_of(&mut self, length_size: usize, text: bool) -> Result<()> {
        let length = self.length(length_size)?;
        let start = self.at;
        let raw = self.take(length)?;
        let node = match text {
            true if std::str::from_utf8(raw).is_err() => {
                return Err(self.refuse("text is not UTF-8"));
            }
            true => Node::Text(start..start + length),
            false => Node::Bytes(start..start + length),
        };
        self.push(node);
        Ok(())
    }

    fn container(&mut self, code: u8) -> Result<()> {
        match code {
            b't' => self.pop_mark().map(|items| self.push(Node::Tuple(items)))?,
            b'l' => self.pop_mark().map(|items| self.push(Node::List(items)))?,
            b'd' => {
                let items = self.pop_mark()?;
                self.push(Node::Dict(Vec::new()));
                self.insert(&items)?;
            }
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                let start = self.stack.len().checked_sub(count);
                let start = start.filter(|&s| s >= self.floor());
                let start = start.ok_or_else(|| self.refuse("the stack is empty"))?;
                let items = self.stack.split_off(start);
                self.push(Node::Tuple(items));
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(&[item])?;
            }
            b'e' => {
                let items = self.pop_mark()?;
                self.extend(&items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.insert(&[key, value])?;
            }
            _ => {
                let items = self.pop_mark()?;
                self.insert(&items)?;
            }
        }
        Ok(())
    }

    fn extend(&mut self, items: &[Id]) -> Result<()> {
        let list = self.top()?;
        match self.node_mut(list) {
            Node::List(list) => {
                list.extend(items);
                Ok(())
            }
            _ => Err(self.refuse("items can only be added to a list")),
        }
    }

    fn insert(&mut self, items: &[Id]) -> Result<()> {
        let dict = self.top()?;
        if items.len() % 2 == 1 {
            return Err(self.refuse("a key without a value"));
        }
        match self.node_mut(dict) {
            Node::Dict(dict) => {
                dict.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                Ok(())
            }
            _ => Err(self.refuse("keys can only be added to a dict")),
        }
    }

    fn remember(&mut self, code: u8) -> Result<()> {
        let slot = match code {
            b'q' | b'h' => u64::from(self.take(1)?[0]),
            b'r' | b'j' => self.length(4)? as u64,
            0x94 => self.memo.len() as u64,
            _ => {
                let slot = self.line()?.parse();
                slot.map_err(|_| self.refuse("a number was expected"))?
            }
        };
        if matches!(code, b'h' | b'j' | b'g') {
            let id = self.memo.get(&slot).copied();
            let id = id.ok_or_else(|| self.refuse("a value is used before it is there"))?;
            self.stack.push(id);
        } else {
            let top = self.top()?;
            self.memo.insert(slot, top);
        }
        Ok(())
    }

    fn global(&mut self, module: &str, name: &str) -> Result<()> {
        if let ("torch", Some(dtype), true) = (module, torch::storage_type(name), self.tensors) {
            self.push(Node::StorageClass(dtype));
            return Ok(());
        }
        let found = Constructor::find(module, name);
        let Some(constructor) = found.filter(|c| self.tensors || !c.is_torch()) else {
            return Err(Error::PickleForbidden {
                path: self.path.clone(),
                offset: self.instruction as u64,
                module: clean(module),
                name: clean(name),
            });
        };
        self.push(Node::Constructor(constructor));
        Ok(())
    }

    fn push(&mut self, node: Node) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    /// The part of the stack below this belongs to values outside the innermost open mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id> {
        match self.stack.last() {
            Some(&top) if self.stack.len() > self.floor() => Ok(top),
            _ => Err(self.refuse("the stack is empty")),
        }
    }

    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop();
        let mark = mark.ok_or_else(|| self.refuse("there is no mark"))?;
        Ok(self.stack.split_off(mark))
    }

    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let available = self.bytes.len() - self.at;
        if count > available {
            return Err(Error::truncated(
                &self.path,
                "the pickle",
                self.at as u64,
                count as u128,
                available as u64,
            ));
        }
        let start = self.at;
        self.at += count;
        Ok(&self.bytes[start..self.at])
    }

    /// Reads a length of `size` bytes; one that does not fit becomes `usize::MAX`.
    fn length(&mut self, size: usize) -> Result<usize> {
        let mut raw = [0; 8];
        raw[..size].copy_from_slice(self.take(size)?);
        Ok(usize::try_from(u64::from_le_bytes(raw)).unwrap_or(usize::MAX))
    }

    fn line(&mut self) -> Result<&str> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|&b| b == b'\n') else {
            return Err(self.refuse("a line does not end"));
        };
        let start = self.at;
        self.at += length + 1;
        let line = std::str::from_utf8(&self.bytes[start..start + length]);
        line.map_err(|_| self.refuse("a line is not text"))
    }
}

/// The bytes of a literal of Python 2, such as `'a\n'`.
fn unquote(raw: &[u8]) -> Option<Vec<u8>> {
    let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
    let (&quote, inner) = raw
        .split_first()
        .filter(|(q, _)| matches!(**q, b'\'' | b'"'))?;
    let mut rest = inner.strip_suffix(&[quote])?.iter().copied();
    let mut bytes = Vec::with_capacity(inner.len());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => u8::try_from(hexadecimal(&mut rest, 2)?).ok()?,
            plain @ (b'\\' | b'\'' | b'"') => plain,
            _ => return None,
        });
    }
    Some(bytes)
}

/// The text of a line in which every byte is a character of Latin-1, except for `\uXXXX` and `\UXXXXXXXX`.
fn unescape(raw: &[u8]) -> Option<String> {
    let mut rest = raw.iter().copied();
    let mut text = String::with_capacity(raw.len());
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digits = match (byte, ahead.next()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(char::from(byte));
                continue;
            }
        };
        text.push(char::from_u32(hexadecimal(&mut ahead, digits)?)?);
        rest = ahead;
    }
    Some(text)
}

fn hexadecimal(digits: &mut impl Iterator<Item = u8>, count: usize) -> Option<u32> {
    (0..count).try_fold(0_u32, |value, _| {
        let digit = char::from(digits.next()?).to_digit(16)?;
        value.checked_mul(16)?.checked_add(digit)
    })
}

/// An integer in two's complement of any length, clamped to 64 bits.
fn little_endian(raw: &[u8]) -> i64 {
    let negative = raw.last().is_some_and(|&b| b >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    if raw.len() > 8 && raw[8..].iter().any(|&b| b != fill) {
        return if negative { i64::MIN } else { i64::MAX };
    }
    let mut wide = [fill; 8];
    let length = raw.len().min(8);
    wide[..length].copy_from_slice(&raw[..length]);
    i64::from_le_bytes(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &[u8]) -> Result<Node> {
        let mut machine = Machine::new(Path::new("f.p"), program.to_vec());
        let id = machine.run()?;
        Ok(machine.node(id).clone())
    }

    #[test]
    fn numbers_of_every_form_are_read() {
        for (program, expected) in [
            (&b"K\x07."[..], 7),
            (b"M\x01\x02.", 0x201),
            (b"J\xff\xff\xff\xff.", -1),
            (b"\x8a\x00.", 0),
            (b"\x8a\x02\xff\x7f.", 0x7fff),
            (b"\x8a\x01\xfe.", -2),
            (b"\x8a\x09\0\0\0\0\0\0\0\0\x01.", i64::MAX),
            (b"I12\n.", 12),
            (b"L12L\n.", 12),
        ] {
            assert!(
                matches!(run(program), Ok(Node::Int(v)) if v == expected),
                "{program:?}"
            );
        }
    }

    #[test]
    fn text_of_protocol_0_is_read() {
        let bytes = run(b"S'a\\'\\x00\\n\\\\'\n.").unwrap();
        assert!(matches!(bytes, Node::Owned(b) if b == b"a'\0\n\\"));
        let text = run(b"V\xe9\\u0416\\q\\U0001f600\n.").unwrap();
        assert!(matches!(text, Node::OwnedText(t) if t == "\u{e9}\u{416}\\q\u{1f600}"));
        assert!(matches!(run(b"I01\n."), Ok(Node::Bool(true))));
        for program in [
            &b"S'a\n."[..],
            b"Sa\n.",
            b"S'\\x0'\n.",
            b"S'\\'\n.",
            b"V\\u12\n.",
            b"V\\ud800\n.",
            b"Va",
        ] {
            assert!(run(program).is_err(), "{program:?}");
        }
    }

    #[test]
    fn a_program_that_calls_something_is_refused_and_named() {
        let error = run(b"\x80\x02cos\nsystem\n(U\x02lstR.").unwrap_err();
        assert!(
            matches!(&error, Error::PickleForbidden { offset: 2, module, name, .. }
                if module == "os" && name == "system"),
            "{error}"
        );
        let stack_global = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.";
        assert!(matches!(
            run(stack_global),
            Err(Error::PickleForbidden { .. })
        ));
    }

    #[test]
    fn broken_programs_are_errors() {
        for program in [
            &b"."[..],
            b"0.",
            b"t.",
            b"(.",
            b"\x85.",
            b"K\x01(\x85.",
            b"K\x01K\x02a.",
            b"]K\x01s.",
            b"}(K\x01u.",
            b"h\x00.",
            b"N)R.",
            b"X\xff\xff\xff\xffa.",
            b"X\x01\0\0\0\xff.",
            b"\x80\x06.",
            b"\x8f.",
            b"P1\n.",
            b"\x97.",
            b"Kx",
            b"I",
        ] {
            assert!(run(program).is_err(), "{program:?}");
        }
    }

    #[test]
    fn a_million_nested_lists_neither_overflow_nor_hang() {
        let mut program = vec![b']'; 1_000_000];
        program.extend(vec![b'a'; 999_999]);
        program.push(b'.');
        assert!(matches!(run(&program), Ok(Node::List(_))));
    }
}
