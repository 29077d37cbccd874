//! Changes of a stored file: of its JSON, its lines, its histograms, its text, its bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Longest text of a compressed bomb.
const BOMB_BYTES: usize = 64 << 20;

/// Numbers that follow from a seed alone: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if that is 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    pub(super) fn is_one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Contents of a file, and whether they are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    content: Content,
    is_compressed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Json,
    JsonLines,
    Histograms,
    Text,
}

impl Kind {
    pub(super) fn from_name(name: &str) -> Kind {
        let (plain, is_compressed) = name.strip_suffix(".zst").map_or((name, false), |plain| (plain, true));
        let content = match plain.rsplit('.').next() {
            Some("json") => Content::Json,
            Some("jsonl") => Content::JsonLines,
            Some("hlog") => Content::Histograms,
            _ => Content::Text,
        };
        Kind { content, is_compressed }
    }
}

/// The text of a file.
pub(super) fn unpacked(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    if kind.is_compressed { zstd::decode_all(bytes).unwrap_or_default() } else { bytes.to_vec() }
}

/// A file with this text.
pub(super) fn packed(kind: Kind, text: &[u8]) -> Vec<u8> {
    if kind.is_compressed { zstd::encode_all(text, 1).unwrap() } else { text.to_vec() }
}

/// A changed file, with what was changed in words; `None` if it is removed.
pub(super) fn file(kind: Kind, bytes: &[u8], random: &mut Random) -> (String, Option<Vec<u8>>) {
    match random.below(40) {
        0 => return ("removed".to_string(), None),
        1 => return ("bytes changed".to_string(), Some(with_other_bytes(bytes, random))),
        2 if kind.is_compressed && random.is_one_in(8) => {
            return ("a bomb".to_string(), Some(bomb(kind, bytes)));
        }
        3 => return ("cut".to_string(), Some(bytes[..random.below(bytes.len())].to_vec())),
        _ => {}
    }
    let text = unpacked(kind, bytes);
    let text = String::from_utf8_lossy(&text).into_owned();
    let (words, text) = match kind.content {
        Content::Json => match serde_json::from_str::<Value>(&text) {
            Ok(value) => other_json(value, random),
            Err(_) => ("bytes changed".to_string(), lossy(&with_other_bytes(text.as_bytes(), random))),
        },
        Content::JsonLines | Content::Histograms => other_lines(kind.content, &text, random),
        Content::Text => {
            if random.is_one_in(2) {
                other_lines(kind.content, &text, random)
            } else {
                ("bytes changed".to_string(), lossy(&with_other_bytes(text.as_bytes(), random)))
            }
        }
    };
    (words, Some(packed(kind, text.as_bytes())))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn with_other_bytes(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        match (random.below(4), bytes.get_mut(at)) {
            (0, Some(byte)) => *byte ^= 1 << random.below(8),
            (1, Some(byte)) => *byte = random.next() as u8,
            (2, Some(_)) => drop(bytes.remove(at)),
            _ => bytes.insert(at, *random.one_of(b"\0\xff9-.{[\"\n")),
        }
    }
    bytes
}

/// The lines of a file again and again.
fn bomb(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let text = unpacked(kind, bytes);
    let n = BOMB_BYTES / text.len().max(1);
    packed(kind, &text.repeat(n.max(1)))
}

fn other_lines(content: Content, text: &str, random: &mut Random) -> (String, String) {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    if lines.is_empty() {
        lines.push("{}".to_string());
    }
    let at = random.below(lines.len());
    let words = match random.below(24) {
        0 => {
            lines.remove(at);
            "left out".to_string()
        }
        1 => {
            lines.insert(at, lines[at].clone());
            "twice".to_string()
        }
        2 => {
            let other = random.below(lines.len());
            lines.swap(at, other);
            format!("in the place of line {}", other + 1)
        }
        3 => {
            let line = lines[at].clone();
            let n = 100 + random.below(3_000);
            lines.splice(at..at, std::iter::repeat_n(line, n));
            format!("{n} times")
        }
        4 => {
            lines[at] = lossy(&with_other_bytes(lines[at].as_bytes(), random));
            "with other bytes".to_string()
        }
        5 => {
            lines[at] = "x".repeat(100_000);
            "long".to_string()
        }
        6 => {
            lines.truncate(at);
            "and all after it left out".to_string()
        }
        _ => other_line(content, &mut lines[at], random),
    };
    (format!("line {} {words}", at + 1), lines.join("\n") + "\n")
}

fn other_line(content: Content, line: &mut String, random: &mut Random) -> String {
    match content {
        Content::Histograms => other_histogram(line, random),
        _ => match serde_json::from_str::<Value>(line) {
            Ok(value) => {
                let (words, text) = other_json(value, random);
                *line = text;
                words
            }
            Err(_) => {
                *line = lossy(&with_other_bytes(line.as_bytes(), random));
                "with other bytes".to_string()
            }
        },
    }
}

/// Changes a field of a line, or what its histogram has within base64 and deflate.
fn other_histogram(line: &mut String, random: &mut Random) -> String {
    let mut fields: Vec<String> = line.split(',').map(str::to_string).collect();
    let at = random.below(fields.len());
    let tag = fields[0].clone();
    let data = fields.last().and_then(|data| STANDARD.decode(data).ok());
    let words = match (at, data) {
        (0, _) => {
            fields[0] = random.one_of(&TAGS).to_string();
            "with another tag".to_string()
        }
        (at, Some(data)) if at + 1 == fields.len() => {
            // What is stored, not deflated, begins after mark, length, and the heads of zlib and of its block.
            let mut data = data;
            const HEAD: usize = 15;
            if data.len() > HEAD + 44 && !random.is_one_in(4) {
                let at = HEAD + random.below(44);
                data[at] = *random.one_of(&[0, 1, 0x7f, 0x80, 0xff, 9]);
                let plain = data[HEAD..data.len() - 4].to_vec();
                let sum = adler32(&plain);
                let end = data.len() - 4;
                data[end..].copy_from_slice(&sum.to_be_bytes());
            } else {
                data = with_other_bytes(&data, random);
            }
            let last = fields.len() - 1;
            fields[last] = STANDARD.encode(data);
            "with another histogram".to_string()
        }
        (at, _) => {
            fields[at] = random.one_of(&DECIMALS).to_string();
            format!("with field {at} {}", fields[at])
        }
    };
    if random.is_one_in(4) {
        fields[0] = tag;
    }
    *line = fields.join(",");
    words
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

const TAGS: [&str; 8] = [
    "Tag=tpcb",
    "Tag=tpcb.service",
    "Tag=tpcb.lag",
    "Tag=tpcb.4294967295",
    "Tag=tpcb.18446744073709551615.measured",
    "Tag=",
    "Tag=.",
    "Tag=sleep.0.measured",
];
const DECIMALS: [&str; 10] = [
    "0.000000000",
    "-1.000000000",
    "18446744073.709551615",
    "4294967295.999999999",
    "1e9",
    "NaN",
    "",
    "99999999999999999999",
    "4294967294.5",
    "0.0000000001",
];

/// Numbers as they are written; some only by hand.
const NUMBERS: [&str; 32] = [
    "-1",
    "0",
    "-0",
    "-0.0",
    "1",
    "2",
    "0.5",
    "-0.5",
    "1e308",
    "-1e308",
    "1.7976931348623157e308",
    "5e-324",
    "1e18",
    "-1e18",
    "1e15",
    "1e400",
    "NaN",
    "255",
    "256",
    "65535",
    "65536",
    "70000",
    "2147483647",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1000000000",
];
const TEXTS: [&str; 16] = [
    "",
    " ",
    "-1",
    "1e999",
    "NaN",
    "inf",
    "99999999999999999999s",
    "\u{202e}\u{1b}[31m\n\r\t\0",
    "é",
    "<b>&amp;\"'",
    "../../etc",
    "=1+1",
    "18446744073709551615",
    "host.cpu.user[cpu0]",
    "p99 <= 1us",
    "2147483648",
];
/// Stands for a number that JSON cannot have, until the text is written.
const MARK: &str = "@number@";

/// A value with one of its parts changed, as text, and what was changed.
fn other_json(mut value: Value, random: &mut Random) -> (String, String) {
    let n = count(&value);
    let mut number = "";
    let mut words = Vec::new();
    for _ in 0..=random.below(2) {
        let mut path = String::new();
        // Small parts are many: of large ones, the head counts as much as all that is in it.
        let at = if random.is_one_in(4) { random.below(n.min(60)) } else { random.below(n) };
        let Some(part) = nth(&mut value, at, &mut path) else { continue };
        let change = change_part(part, &mut number, random);
        words.push(format!("{path} {change}"));
    }
    (words.join(", "), value.to_string().replace(&format!("\"{MARK}\""), number))
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(count).sum(),
        Value::Object(all) => all.values().map(count).sum(),
        _ => 0,
    }
}

/// The part with a number, counted from the outside; and its path.
fn nth<'a>(value: &'a mut Value, mut at: usize, path: &mut String) -> Option<&'a mut Value> {
    if at == 0 {
        return Some(value);
    }
    at -= 1;
    let parts: Vec<(String, &mut Value)> = match value {
        Value::Array(all) => all.iter_mut().enumerate().map(|(n, part)| (n.to_string(), part)).collect(),
        Value::Object(all) => all.iter_mut().map(|(key, part)| (key.clone(), part)).collect(),
        _ => Vec::new(),
    };
    for (key, part) in parts {
        let n = count(part);
        if at < n {
            path.push('.');
            path.push_str(&key);
            return nth(part, at, path);
        }
        at -= n;
    }
    None
}

fn change_part(part: &mut Value, number: &mut &'static str, random: &mut Random) -> String {
    // Now and then another type.
    if random.is_one_in(12) {
        let others =
            [json!(null), json!("text"), json!(-1), json!([]), json!({}), json!(true), json!([[[[]]]])];
        *part = random.one_of(&others).clone();
        return format!("is {part}");
    }
    match part {
        Value::Array(all) if !all.is_empty() => change_list(all, random),
        Value::Object(all) if !all.is_empty() => change_keys(all, random),
        Value::String(text) => {
            *text = other_text(text, random);
            format!("is a text of {} bytes: {:.40}", text.len(), text.escape_debug().to_string())
        }
        Value::Number(_) | Value::Null => {
            *number = NUMBERS[random.below(NUMBERS.len())];
            *part = json!(MARK);
            format!("is {number}")
        }
        Value::Bool(is) => {
            *is = !*is;
            "is the contrary".to_string()
        }
        _ => {
            *part = json!([{"a": [[]]}]);
            "is not empty".to_string()
        }
    }
}

fn other_text(text: &str, random: &mut Random) -> String {
    match random.below(8) {
        0 => "x".repeat(70_000),
        1 => "é".repeat(4 + random.below(300)),
        2 => lossy(&with_other_bytes(text.as_bytes(), random)),
        3 => text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect(),
        4 => format!("{text}{text}"),
        5 => random.one_of(&NUMBERS).to_string(),
        6 => "9".repeat(400),
        _ => random.one_of(&TEXTS).to_string(),
    }
}

fn change_list(all: &mut Vec<Value>, random: &mut Random) -> String {
    let at = random.below(all.len());
    match random.below(6) {
        0 => {
            all.clear();
            "is empty".to_string()
        }
        1 => {
            all.remove(at);
            format!("lacks {at}")
        }
        2 => {
            all.reverse();
            "is turned around".to_string()
        }
        3 => {
            let part = all[at].clone();
            all.push(part);
            format!("has {at} twice")
        }
        4 => {
            let part = all[at].clone();
            let n = 50 + random.below(2_000);
            all.extend(std::iter::repeat_n(part, n));
            format!("has {at} {n} times")
        }
        _ => {
            all.truncate(at);
            format!("ends at {at}")
        }
    }
}

fn change_keys(all: &mut serde_json::Map<String, Value>, random: &mut Random) -> String {
    let keys: Vec<String> = all.keys().cloned().collect();
    let key = random.one_of(&keys).clone();
    match random.below(6) {
        0 => {
            all.remove(&key);
            format!("lacks `{key}`")
        }
        1 => {
            let value = all.remove(&key).unwrap_or_default();
            let other = other_text(&key, random);
            all.insert(other.clone(), value);
            format!("has `{:.40}` for `{key}`", other.escape_debug().to_string())
        }
        2 => {
            let other = random.one_of(&keys).clone();
            let value = all[&other].clone();
            all.insert(key.clone(), value);
            format!("has in `{key}` what is in `{other}`")
        }
        3 => {
            let value = all[&key].clone();
            let n = 50 + random.below(2_000);
            all.extend((0..n).map(|n| (format!("{key}[{n}]"), value.clone())));
            format!("has {n} like `{key}`")
        }
        4 => {
            let value = all[&key].clone();
            all.insert(format!("{key}\u{1b}é"), value);
            format!("has `{key}` under another name, too")
        }
        _ => {
            all.retain(|_, _| !random.is_one_in(3));
            "lacks some".to_string()
        }
    }
}
