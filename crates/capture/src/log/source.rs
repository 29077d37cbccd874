//! The bytes of one file: decompressed by their first bytes, without what a container engine has wrapped around the lines, and cut into
//! lines or records without copying them.

mod container;

use std::io::{Chain, Cursor, Read};
use std::ops::Range;

use anyhow::{Context, Result, bail};

use super::LINE_BYTES_MAX;

/// Bytes that are read at once; as many of a file are looked at to find out its format.
const READ_BYTES: usize = 256 << 10;

/// Largest window of zstd that is accepted, as a power of two: 128 MiB, what `zstd --long` uses.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Where a piece of a file ends.
pub(crate) trait Boundary {
    /// Looks at further bytes; returns how many of them belong to the piece if it ends there.
    fn end(&mut self, bytes: &[u8]) -> Option<usize>;
}

/// Ends at a newline.
pub(crate) struct Newline;

impl Boundary for Newline {
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        memchr::memchr(b'\n', bytes).map(|at| at + 1)
    }
}

/// A piece of a file.
pub(crate) enum Piece {
    /// The place in the buffer, for `bytes`.
    Whole(Range<usize>),
    /// More than `LINE_BYTES_MAX`; nothing of it has been taken.
    TooLong,
}

/// A file that is being read.
pub(crate) struct LogSource {
    name: String,
    input: Box<dyn Read>,
    buffer: Vec<u8>,
    /// The part of `buffer` that is not yet taken.
    left: Range<usize>,
    is_at_end: bool,
    /// Lines that are taken.
    n_lines: u64,
    /// Bytes that are taken, decompressed.
    n_bytes: u64,
}

impl LogSource {
    /// A file whose first bytes say how it is compressed.
    pub(crate) fn open(mut bytes: Box<dyn Read>, name: &str) -> Result<LogSource> {
        let mut first = Vec::new();
        bytes.by_ref().take(6).read_to_end(&mut first).with_context(|| format!("cannot read `{name}`"))?;
        let whole: Chain<Cursor<Vec<u8>>, Box<dyn Read>> = Cursor::new(first.clone()).chain(bytes);
        let input: Box<dyn Read> = match first.as_slice() {
            [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let mut decoder = zstd::stream::read::Decoder::new(whole)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
            [b'B', b'Z', b'h', ..] => {
                bail!("`{name}` is compressed by bzip2: give its output, `bzcat {name}`")
            }
            [0xfd, b'7', b'z', b'X', b'Z', ..] => {
                bail!("`{name}` is compressed by xz: give its output, `xzcat {name}`")
            }
            [b'P', b'K', 3, 4, ..] => bail!("`{name}` is a zip archive: unpack it first"),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                bail!("`{name}` is in UTF-16: convert it with iconv -f UTF-16 -t UTF-8")
            }
            _ => Box::new(whole),
        };
        let mut source = LogSource {
            name: name.to_string(),
            input: container::unwrapped(input, name)?,
            buffer: Vec::new(),
            left: 0..0,
            is_at_end: false,
            n_lines: 0,
            n_bytes: 0,
        };
        source.fill()?;
        if source.rest().starts_with(b"\xef\xbb\xbf") {
            source.left.start += 3;
        }
        Ok(source)
    }

    /// Name of the file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Number of the line that was taken last.
    pub(crate) fn line(&self) -> u64 {
        self.n_lines
    }

    /// Bytes that were taken.
    pub(crate) fn bytes_taken(&self) -> u64 {
        self.n_bytes
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&mut self) -> Result<bool> {
        while self.left.is_empty() && !self.is_at_end {
            self.fill()?;
        }
        Ok(self.left.is_empty())
    }

    /// The first bytes that are not yet taken, without taking them: up to `READ_BYTES`.
    pub(crate) fn peek(&mut self) -> Result<&[u8]> {
        while self.left.len() < READ_BYTES && !self.is_at_end {
            self.fill()?;
        }
        let end = (self.left.start + READ_BYTES).min(self.left.end);
        Ok(&self.buffer[self.left.start..end])
    }

    /// The next piece, or `None` at the end of the file.
    pub(crate) fn take(&mut self, boundary: &mut impl Boundary) -> Result<Option<Piece>> {
        let mut n_seen = 0;
        loop {
            let unseen = &self.buffer[self.left.start + n_seen..self.left.end];
            if let Some(more) = boundary.end(unseen) {
                let n = n_seen + more;
                return Ok(Some(if n > LINE_BYTES_MAX { Piece::TooLong } else { self.taken(n) }));
            }
            n_seen = self.left.len();
            if n_seen > LINE_BYTES_MAX {
                return Ok(Some(Piece::TooLong));
            }
            if self.is_at_end {
                return Ok((n_seen > 0).then(|| self.taken(n_seen)));
            }
            self.fill()?;
        }
    }

    /// The next line without its end, or `None` at the end of the file.
    pub(crate) fn line_of_text(&mut self) -> Result<Option<Piece>> {
        let piece = self.take(&mut Newline)?;
        Ok(piece.map(|piece| match piece {
            Piece::Whole(range) => Piece::Whole(self.trimmed(range)),
            Piece::TooLong => Piece::TooLong,
        }))
    }

    /// Leaves out everything to the end of the line.
    pub(crate) fn skip_line(&mut self) -> Result<()> {
        loop {
            let end = memchr::memchr(b'\n', self.rest());
            let n = end.map_or(self.left.len(), |at| at + 1);
            self.n_bytes += n as u64;
            self.left.start += n;
            if end.is_some() || self.is_at_end {
                self.n_lines += 1;
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// The bytes of a piece.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Takes back the last piece.
    pub(crate) fn give_back(&mut self, range: &Range<usize>) {
        let piece = &self.buffer[range.clone()];
        self.n_lines -= newlines(piece);
        self.n_bytes -= piece.len() as u64;
        self.left.start = range.start;
    }

    /// A range without the newline at its end.
    pub(crate) fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let line = &self.buffer[range.clone()];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        range.start..range.start + line.len()
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.left.clone()]
    }

    fn taken(&mut self, n: usize) -> Piece {
        let range = self.left.start..self.left.start + n;
        self.n_lines += newlines(&self.buffer[range.clone()]);
        self.n_bytes += n as u64;
        self.left.start = range.end;
        Piece::Whole(range)
    }

    /// Reads more; what is taken makes room.
    fn fill(&mut self) -> Result<()> {
        if self.buffer.len() - self.left.end < READ_BYTES {
            self.make_room();
        }
        let place = &mut self.buffer[self.left.end..];
        let n = loop {
            match self.input.read(place) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.with_context(|| format!("cannot read `{}`", self.name))?,
            }
        };
        self.left.end += n;
        self.is_at_end = n == 0;
        Ok(())
    }

    /// Moves what is left to the beginning. The room after it is in proportion, so that a long line is not copied for each read.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.left.clone(), 0);
        self.left = 0..self.left.len();
        let wanted = self.left.len() + self.left.len().max(2 * READ_BYTES);
        self.buffer.resize(wanted, 0);
        if self.buffer.capacity() > 4 * wanted {
            self.buffer.shrink_to_fit();
        }
    }
}

/// Lines of a piece; its last one may lack its newline.
fn newlines(piece: &[u8]) -> u64 {
    let n = memchr::memchr_iter(b'\n', piece).count() as u64;
    n + u64::from(!piece.ends_with(b"\n"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A reader that returns few bytes at a time.
    struct Slow(Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, place: &mut [u8]) -> std::io::Result<usize> {
            let n = place.len().min(3);
            self.0.read(&mut place[..n])
        }
    }

    fn lines(bytes: Vec<u8>) -> Vec<String> {
        let mut source = LogSource::open(Box::new(Slow(Cursor::new(bytes))), "a").unwrap();
        let mut lines = Vec::new();
        while let Some(piece) = source.line_of_text().unwrap() {
            let Piece::Whole(range) = piece else { panic!("too long") };
            lines.push(String::from_utf8_lossy(source.bytes(range)).into_owned());
        }
        lines
    }

    #[test]
    fn a_file_is_decompressed_by_its_first_bytes() {
        let text = b"one\r\ntwo\n\nlast";
        let expected = ["one", "two", "", "last"];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        assert_eq!(lines(text.to_vec()), expected);
        assert_eq!(lines(gzip.finish().unwrap()), expected);
        assert_eq!(lines(zstd::encode_all(&text[..], 1).unwrap()), expected);
        assert_eq!(lines([b"\xef\xbb\xbf", &text[..]].concat()), expected);
        let open =
            |bytes: &[u8]| LogSource::open(Box::new(Cursor::new(bytes.to_vec())), "a.bz2").err().unwrap();
        assert_eq!(
            open(b"BZh91AY").to_string(),
            "`a.bz2` is compressed by bzip2: give its output, `bzcat a.bz2`"
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_left_to_the_caller() {
        let bytes = [vec![b'x'; LINE_BYTES_MAX + 10], b"\nshort\n".to_vec()].concat();
        let mut source = LogSource::open(Box::new(Cursor::new(bytes)), "a").unwrap();
        assert!(matches!(source.line_of_text().unwrap(), Some(Piece::TooLong)));
        source.skip_line().unwrap();
        let Some(Piece::Whole(range)) = source.line_of_text().unwrap() else { panic!("no line") };
        assert_eq!((source.bytes(range), source.line()), (&b"short"[..], 2));
    }

    #[test]
    fn a_piece_can_be_given_back() {
        let mut source = LogSource::open(Box::new(&b"a\nb\nc"[..]), "a").unwrap();
        struct All;
        impl Boundary for All {
            fn end(&mut self, _: &[u8]) -> Option<usize> {
                None
            }
        }
        let Some(Piece::Whole(range)) = source.take(&mut All).unwrap() else { panic!("nothing") };
        assert_eq!(source.line(), 3);
        source.give_back(&range);
        assert_eq!(source.line(), 0);
        source.skip_line().unwrap();
        assert_eq!((source.line(), source.bytes_taken()), (1, 2));
    }
}
