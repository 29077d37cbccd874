//! Texts of random characters, and texts made of others.

use super::{Call, Characters, ExpressionError, Made, Node, Type, Word, ensure};
use crate::expression::make::{Frame, Generator};
use crate::expression::node::{Facts, Reach, TextFn};
use crate::value::text::{
    ALPHANUMERIC, BYTES_MAX, COMBINATIONS_MAX, is_special, next_below, push_characters, push_padded,
};

/// Characters from `!` to `~`.
pub(super) fn ascii(call: &mut Call<'_, '_>) -> Made {
    random_text::<94, 6>(call, true, |at| b'!' + at as u8)
}

/// Small letters.
pub(super) fn letters(call: &mut Call<'_, '_>) -> Made {
    random_text::<26, 8>(call, false, |at| b'a' + at as u8)
}

/// Letters and digits.
pub(super) fn alnum(call: &mut Call<'_, '_>) -> Made {
    random_text::<62, 6>(call, false, |at| ALPHANUMERIC[at as usize])
}

fn random_text<const M: u64, const K: usize>(
    call: &mut Call<'_, '_>,
    has_specials: bool,
    character: impl Fn(u64) -> u8 + Copy + Send + Sync + 'static,
) -> Made {
    let lengths = Lengths::new(call, 0)?;
    let facts = Facts { has_specials, ..lengths.facts.drawn() };
    let facts = facts.with_length(lengths.most, lengths.most);
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        let Some(n) = lengths.draw(g, f) else { return false };
        push_characters::<M, K>(out, &mut f.draws, n, character);
        true
    }))
}

/// A number of characters or words: one argument, or the least and the most of it.
pub(super) struct Lengths {
    pub(super) facts: Facts,
    /// The largest it can be.
    pub(super) most: u64,
    low: Word,
    high: Option<Word>,
}

impl Lengths {
    /// Of the arguments from `first` on.
    pub(super) fn new(call: &mut Call<'_, '_>, first: usize) -> Result<Lengths, ExpressionError> {
        let low = call.int(first)?;
        let high = if call.arguments.len() > first + 1 { Some(call.int(first + 1)?) } else { None };
        let longest = high.as_ref().unwrap_or(&low);
        let (least, most) = (low.facts.words().0, longest.facts.words().1);
        let is_length = least >= 0 && most <= i128::from(BYTES_MAX);
        ensure(is_length, || {
            call.problem(format!("a length from {least} to {most}: 0 to {BYTES_MAX} is possible"))
        })?;
        ensure(least <= most, || call.problem(format!("a length from {least} to {most}: there is none")))?;
        let facts = Facts::combined([&low, longest].map(|length| &length.facts));
        Ok(Lengths { facts, most: most as u64, low, high })
    }

    /// A length; none if one of its ends is null, or if there is none.
    pub(super) fn draw(&self, generator: &Generator, frame: &mut Frame) -> Option<usize> {
        let low = (self.low.code)(generator, frame)?;
        let Some(high) = &self.high else { return Some(low.max(0) as usize) };
        let high = (high.code)(generator, frame)?;
        if low > high {
            frame.fail(format!("a length from {low} to {high}: there is none"));
            return None;
        }
        Some(frame.draws.between(low, high).max(0) as usize)
    }
}

/// Digits for `#`, small letters for `?`, all else as it is.
pub(super) fn pattern(call: &mut Call<'_, '_>) -> Made {
    let pattern = call.constant_text(0)?;
    let facts = Facts { has_specials: pattern.bytes().any(is_special), ..Facts::varying() };
    let facts = facts.with_length(pattern.chars().count() as u64, pattern.len() as u64);
    let pieces = pieces(pattern.as_bytes());
    Ok(Node::text(Type::Text, facts, move |_, f, out| {
        let mut bits = 0;
        for piece in &pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Draw => bits = f.draws.next_bits(),
                Piece::Random { m, first, n } => {
                    out.extend((0..*n).map(|_| first + next_below(&mut bits, *m) as u8));
                }
            }
        }
        true
    }))
}

/// A piece of a pattern.
enum Piece {
    Literal(Vec<u8>),
    /// A new draw for the characters behind it.
    Draw,
    /// Characters of an alphabet of `m` that begins with `first`.
    Random {
        m: u64,
        first: u8,
        n: usize,
    },
}

/// A pattern in pieces. A draw makes characters until the product of their alphabets would exceed [`COMBINATIONS_MAX`].
fn pieces(pattern: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut n_combinations = COMBINATIONS_MAX;
    for byte in pattern {
        let (m, first) = match byte {
            b'#' => (10, b'0'),
            b'?' => (26, b'a'),
            literal => {
                match pieces.last_mut() {
                    Some(Piece::Literal(bytes)) => bytes.push(*literal),
                    _ => pieces.push(Piece::Literal(vec![*literal])),
                }
                continue;
            }
        };
        if n_combinations * m > COMBINATIONS_MAX {
            n_combinations = 1;
            pieces.push(Piece::Draw);
        }
        n_combinations *= m;
        match pieces.last_mut() {
            Some(Piece::Random { m: before, n, .. }) if *before == m => *n += 1,
            _ => pieces.push(Piece::Random { m, first, n: 1 }),
        }
    }
    pieces
}

/// Letters and digits of which the first n/ratio are random and the others repeat them.
pub(super) fn compressible(call: &mut Call<'_, '_>) -> Made {
    let ratio = call.constant_float(1)?;
    ensure(ratio >= 1.0, || call.problem_at(1, format!("a ratio is at least 1, not {ratio}")))?;
    let Word { code, facts, .. } = call.int(0)?;
    let (least, most) = facts.words();
    let is_length = least >= 0 && most <= i128::from(BYTES_MAX);
    ensure(is_length, || {
        call.problem_at(0, format!("a length from {least} to {most}: 0 to {BYTES_MAX} is possible"))
    })?;
    let facts = Facts::combined([&facts]).drawn().with_length(most as u64, most as u64);
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        let Some(n) = code(g, f) else { return false };
        let n = n.max(0) as usize;
        let n_random = ((n as f64 / ratio).ceil() as usize).min(n).max(usize::from(n > 0));
        let start = out.len();
        push_characters::<62, 6>(out, &mut f.draws, n_random, |at| ALPHANUMERIC[at as usize]);
        while out.len() < start + n {
            let n_repeated = n_random.min(start + n - out.len());
            out.extend_from_within(start..start + n_repeated);
        }
        true
    }))
}

/// All arguments one after the other; a null adds nothing, as in SQL.
pub(super) fn concat(call: &mut Call<'_, '_>) -> Made {
    let mut codes: Vec<TextFn> = Vec::new();
    let mut all: Vec<Facts> = Vec::new();
    let mut n_distinguishing = 0;
    for argument in 0..call.arguments.len() {
        let Characters { code, facts } = call.any_text(argument)?;
        n_distinguishing += usize::from(facts.is_unique && !facts.is_nullable);
        codes.push(code);
        all.push(facts);
    }
    let total = |length: fn(&Facts) -> u64| all.iter().map(length).fold(0, u64::saturating_add);
    let is_unique = n_distinguishing == 1 && all.iter().all(|facts| facts.is_unique || facts.is_constant);
    let facts = Facts { is_nullable: false, is_unique, ..Facts::combined(&all) };
    let facts = facts.with_length(total(|facts| facts.characters), total(|facts| facts.bytes));
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        for code in &codes {
            let start = out.len();
            if !code(g, f, out) {
                out.truncate(start);
            }
        }
        true
    }))
}

/// An int with zeros before it, of at least so many digits.
pub(super) fn zeros(call: &mut Call<'_, '_>) -> Made {
    let value = call.node(0)?;
    let longest = value.longest();
    let value = call.as_int(0, value)?;
    let width = call.constant_int(1)?;
    ensure((0..=1000).contains(&width), || {
        call.problem_at(1, format!("a width from 0 to 1000, not {width}"))
    })?;
    let width = width as usize;
    let longest = longest.max(width as u64 + u64::from(value.facts.words().0 < 0));
    let facts = Facts { is_unique: value.facts.is_unique, ..Facts::combined([&value.facts]) };
    let code = value.code;
    Ok(Node::text(Type::Text, facts.with_length(longest, longest), move |g, f, out| {
        let Some(value) = code(g, f) else { return false };
        if value < 0 {
            out.push(b'-');
        }
        out.extend(std::iter::repeat_n(b'0', width.saturating_sub(20)));
        push_padded(out, value.unsigned_abs(), width.min(20));
        true
    }))
}

/// Characters from a place, counted from 1, as SQL's `substr`.
pub(super) fn substr(call: &mut Call<'_, '_>) -> Made {
    let Characters { code, facts } = call.text(0)?;
    let from = call.int(1)?;
    let length = call.int(2)?;
    let (_, most) = length.facts.words();
    ensure(length.facts.words().0 >= 0, || call.problem_at(2, "a length is not below 0".to_string()))?;
    let characters = facts.characters.min(u64::try_from(most).unwrap_or(u64::MAX));
    let bytes = facts.bytes.min(characters.saturating_mul(4));
    let facts = Facts::combined([&facts, &from.facts, &length.facts]).with_length(characters, bytes);
    let (from, length) = (from.code, length.code);
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        let start = out.len();
        let is_there = code(g, f, out);
        let from = from(g, f);
        let length = length(g, f);
        let (true, Some(from), Some(length)) = (is_there, from, length) else { return false };
        let end = from.saturating_add(length.max(0)).max(1) - 1;
        let end = start + byte_of_character(&out[start..], end as usize);
        let first = start + byte_of_character(&out[start..], from.max(1) as usize - 1);
        out.truncate(end.max(first));
        out.drain(start..first);
        true
    }))
}

/// Where a character begins, counted from 0; the end if there are fewer.
pub(super) fn byte_of_character(text: &[u8], character: usize) -> usize {
    // If each is one byte, nothing has to be counted.
    if character >= text.len() {
        return text.len();
    }
    let starts = text.iter().enumerate().filter(|(_, byte)| is_start(**byte));
    starts.map(|(at, _)| at).nth(character).unwrap_or(text.len())
}

/// Whether a byte begins a character of UTF-8.
fn is_start(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// With capitals for the letters of ASCII.
pub(super) fn upper(call: &mut Call<'_, '_>) -> Made {
    let Characters { code, facts } = call.text(0)?;
    let facts = Facts::combined([&facts]).with_length(facts.characters, facts.bytes);
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        let start = out.len();
        let is_there = code(g, f, out);
        out[start..].make_ascii_uppercase();
        is_there
    }))
}

/// The number of characters.
pub(super) fn length(call: &mut Call<'_, '_>) -> Made {
    let Characters { code, facts } = call.text(0)?;
    let longest = i128::from(facts.characters);
    // The text of a row that a client inserts can be longer than those that were loaded.
    let reach = if facts.is_new { Reach::Unknown } else { Reach::Words(0, longest) };
    let facts = Facts { reach, has_specials: false, ..Facts::combined([&facts]) };
    Ok(Node::word(Type::Int, facts, move |g, f| {
        let mut text = f.borrow();
        let is_there = code(g, f, &mut text);
        let n = text.iter().filter(|byte| is_start(**byte)).count();
        f.give(text);
        if is_there { Some(n as i64) } else { None }
    }))
}

/// A text as `bytea`.
pub(super) fn bytes(call: &mut Call<'_, '_>) -> Made {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let Characters { code, facts } = call.text(0)?;
    let longest = facts.bytes.saturating_mul(2).saturating_add(2);
    let facts = Facts { is_unique: facts.is_unique, has_specials: true, ..Facts::combined([&facts]) };
    let facts = facts.with_length(longest, longest);
    Ok(Node::text(Type::Bytes, facts, move |g, f, out| {
        let mut text = f.borrow();
        let is_there = code(g, f, &mut text);
        out.extend_from_slice(b"\\x");
        out.extend(text.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]));
        f.give(text);
        is_there
    }))
}
