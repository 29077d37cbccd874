//! The text of a stored histogram: HdrHistogram V2 in a stream of deflate, in base64.
//!
//! What we write is stored, not compressed, which deflate knows too and any reader takes: neither the driver nor a report spends time
//! on it, and files that are compressed as a whole get smaller. Other programs and earlier versions compressed each histogram.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Decompress, FlushDecompress, Status};

/// HdrHistogram's mark of the V2 encoding, deflated.
const COOKIE: u32 = 0x1c84_9314;
/// zlib's header (RFC 1950, section 2.2): deflate with a window of 32 KiB, fastest.
const ZLIB: [u8; 2] = [0x78, 0x01];
/// Most bytes of a stored block (RFC 1951, section 3.2.4).
const BLOCK_MAX: usize = 0xffff;

/// The text of a histogram in its plain encoding.
pub(super) fn encode(plain: &[u8]) -> String {
    let mut stream = ZLIB.to_vec();
    let n_blocks = plain.len().div_ceil(BLOCK_MAX);
    for (n, block) in plain.chunks(BLOCK_MAX).enumerate() {
        let length = u16::try_from(block.len()).expect("a block is no longer than that");
        stream.push(u8::from(n + 1 == n_blocks));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler32(plain).to_be_bytes());
    let n_bytes = u32::try_from(stream.len()).expect("a histogram has less than a megabyte");
    let mut bytes = COOKIE.to_be_bytes().to_vec();
    bytes.extend(n_bytes.to_be_bytes());
    bytes.extend(stream);
    STANDARD.encode(bytes)
}

/// Decodes texts, one after the other, in memory that is used again.
#[derive(Debug)]
pub(super) struct Reader {
    /// Of the last text, without base64.
    bytes: Vec<u8>,
    plain: Vec<u8>,
    inflater: Decompress,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader { bytes: Vec::new(), plain: Vec::new(), inflater: Decompress::new(true) }
    }
}

impl Reader {
    /// Takes in a text.
    pub(super) fn read(&mut self, text: &str) -> Result<(), String> {
        self.bytes.clear();
        STANDARD.decode_vec(text.trim(), &mut self.bytes).map_err(|error| format!("is not base64: {error}"))
    }

    /// The text without base64.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The plain encoding; `None` if the text contains no more than `n_max` bytes in a whole stream of deflate.
    pub(super) fn plain(&mut self, n_max: usize) -> Option<&[u8]> {
        let (cookie, rest) = self.bytes.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        if u32::from_be_bytes(*cookie) != COOKIE {
            return None;
        }
        let stream = rest.get(..u32::from_be_bytes(*length) as usize)?;
        self.plain.clear();
        if unpack(stream, &mut self.plain).is_none() {
            self.plain.clear();
            self.inflater.reset(true);
            inflate(&mut self.inflater, stream, n_max, &mut self.plain)?;
        }
        Some(&self.plain)
    }
}

/// Copies the blocks of a stream in which all are stored; `None` of any other.
fn unpack(stream: &[u8], plain: &mut Vec<u8>) -> Option<()> {
    let mut rest = stream.strip_prefix(&ZLIB)?;
    loop {
        let (kind, after) = rest.split_first()?;
        let (length, after) = after.split_first_chunk::<2>()?;
        let (inverted, after) = after.split_first_chunk::<2>()?;
        let n = u16::from_le_bytes(*length);
        if *kind > 1 || u16::from_le_bytes(*inverted) != !n {
            return None;
        }
        let (block, after) = after.split_at_checked(usize::from(n))?;
        plain.extend_from_slice(block);
        rest = after;
        if *kind == 1 {
            return (rest.first_chunk() == Some(&adler32(plain).to_be_bytes())).then_some(());
        }
    }
}

/// Inflates a stream; `None` if it is damaged or longer than `n_max`.
fn inflate(inflater: &mut Decompress, stream: &[u8], n_max: usize, plain: &mut Vec<u8>) -> Option<()> {
    plain.reserve(4 * stream.len());
    loop {
        let rest = stream.get(usize::try_from(inflater.total_in()).ok()?..)?;
        let n_before = plain.len();
        match inflater.decompress_vec(rest, plain, FlushDecompress::None).ok()? {
            Status::StreamEnd => return Some(()),
            _ if plain.len() > n_max => return None,
            _ if plain.len() < plain.capacity() && plain.len() == n_before => return None,
            _ => plain.reserve(plain.len().max(1024)),
        }
    }
}

/// The checksum of zlib (RFC 1950, section 8.2): the sum of the bytes, and the sum of these sums.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    /// So many bytes in a row do not overflow (zlib's NMAX), in whole lanes.
    const ROW: usize = 5_552 / LANES * LANES;
    /// Bytes that are added at once.
    const LANES: usize = 16;
    let (mut sum, mut sums) = (1_u32, 0_u32);
    for row in bytes.chunks(ROW) {
        let lanes = row.chunks_exact(LANES);
        let rest = lanes.remainder();
        for lane in lanes {
            sums += LANES as u32 * sum;
            for (byte, weight) in lane.iter().zip((1..=LANES as u32).rev()) {
                sum += u32::from(*byte);
                sums += weight * u32::from(*byte);
            }
        }
        for byte in rest {
            sum += u32::from(*byte);
            sums += sum;
        }
        sum %= MODULUS;
        sums %= MODULUS;
    }
    sums << 16 | sum
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use flate2::Compression;
    use flate2::read::ZlibDecoder;
    use flate2::write::ZlibEncoder;

    use super::*;

    /// Bytes before the stream: mark and length.
    const HEADER: usize = 8;
    const N_MAX: usize = 1 << 20;

    fn bytes(n: usize) -> Vec<u8> {
        (0..n as u64).map(|i| ((i * 2_654_435_761) >> 13) as u8).collect()
    }

    fn text_of(stream: &[u8]) -> String {
        let head = [COOKIE.to_be_bytes(), (stream.len() as u32).to_be_bytes()].concat();
        STANDARD.encode([&head, stream].concat())
    }

    fn read(text: &str, n_max: usize) -> Option<Vec<u8>> {
        let mut reader = Reader::default();
        reader.read(text).ok()?;
        reader.plain(n_max).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_is_written_is_read_by_us_and_by_zlib() {
        for n in [0, 1, 15, 16, 17, 5_551, 5_552, 5_553, BLOCK_MAX - 1, BLOCK_MAX, BLOCK_MAX + 1, 200_000] {
            let plain = [bytes(n), vec![0xff; n]].concat();
            let plain = if plain.is_empty() { vec![7] } else { plain };
            let text = encode(&plain);
            assert!(read(&text, N_MAX).as_ref() == Some(&plain), "{n}");
            let mut found = Vec::new();
            ZlibDecoder::new(&STANDARD.decode(&text).unwrap()[HEADER..]).read_to_end(&mut found).unwrap();
            assert!(found == plain, "{n}");
        }
    }

    #[test]
    fn streams_of_any_compression_are_read_one_after_the_other() {
        let mut reader = Reader::default();
        for n in [1, 400, 70_000, 3] {
            for level in [0, 1, 6, 9] {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
                encoder.write_all(&bytes(n)).unwrap();
                reader.read(&text_of(&encoder.finish().unwrap())).unwrap();
                assert!(reader.plain(N_MAX) == Some(&bytes(n)), "{n} bytes at level {level}");
            }
        }
    }

    #[test]
    fn a_stream_that_is_damaged_or_too_long_is_none() {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(&vec![0; N_MAX]).unwrap();
        let small = encoder.finish().unwrap();
        assert_eq!(read(&text_of(&small), N_MAX / 8), None, "it inflates to a thousand times its length");
        let good = STANDARD.decode(encode(&bytes(300))).unwrap();
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 0x02;
            assert_eq!(read(&STANDARD.encode(&changed), N_MAX), None, "byte {at}");
            assert_eq!(
                read(&text_of(&good[HEADER..HEADER + at.min(good.len() - HEADER - 1)]), N_MAX),
                None,
                "{at}"
            );
        }
    }
}
