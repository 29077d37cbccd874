//! Texts from the words of a list.

use super::texts::{Lengths, byte_of_character};
use super::{Call, Made, Node, Type, Word, ensure};
use crate::expression::node::{Facts, Reach};

/// So many words, with a space between.
pub(super) fn words(call: &mut Call<'_, '_>) -> Made {
    let list = call.list(0)?;
    let lengths = Lengths::new(call, 1)?;
    let n = lengths.most;
    let longest = |word: u64| n.saturating_mul(word.saturating_add(1)).saturating_sub(1);
    let facts = Facts { has_specials: list.has_specials, ..lengths.facts.drawn() };
    let facts = facts.with_length(longest(list.characters), longest(list.bytes));
    let facts = Facts { steps: facts.steps.saturating_add(n), ..facts };
    let n_words = list.words.len() as u64;
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        let Some(n) = lengths.draw(g, f) else { return false };
        for at in 0..n {
            if at > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(list.words[f.draws.below(n_words) as usize].as_bytes());
        }
        true
    }))
}

/// Words cut to so many characters.
pub(super) fn prose(call: &mut Call<'_, '_>) -> Made {
    let list = call.list(0)?;
    let lengths = Lengths::new(call, 1)?;
    let n = lengths.most;
    let facts = Facts { has_specials: list.has_specials, ..lengths.facts.drawn() };
    // A character of UTF-8 has at most four bytes.
    let is_ascii = list.words.iter().all(|word| word.is_ascii());
    let facts = facts.with_length(n, if is_ascii { n } else { n.saturating_mul(4) });
    let facts = Facts { steps: facts.steps.saturating_add(n), ..facts };
    let n_words = list.words.len() as u64;
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        let Some(n) = lengths.draw(g, f) else { return false };
        let start = out.len();
        let mut n_characters = 0;
        while n_characters < n {
            if n_characters > 0 {
                out.push(b' ');
                n_characters += 1;
            }
            let word = &list.words[f.draws.below(n_words) as usize];
            n_characters += if is_ascii { word.len() } else { word.chars().count() };
            out.extend_from_slice(word.as_bytes());
        }
        let end = if is_ascii { n } else { byte_of_character(&out[start..], n) };
        out.truncate(start + end);
        true
    }))
}

/// The word of a number, from 0.
pub(super) fn line_of(call: &mut Call<'_, '_>) -> Made {
    let list = call.list(0)?;
    let Word { code, facts, .. } = call.int(1)?;
    let n = list.words.len() as i64;
    let (low, high) = facts.words();
    let is_known = facts.reach != Reach::Unknown;
    ensure(!is_known || (low >= 0 && high < i128::from(n)), || {
        call.problem_at(1, format!("{low} to {high}: the list has {n} words, from 0"))
    })?;
    let facts = Facts { has_specials: list.has_specials, ..Facts::combined([&facts]) };
    let facts = facts.with_length(list.characters, list.bytes);
    Ok(Node::text(Type::Text, facts, move |g, f, out| {
        let Some(at) = code(g, f) else { return false };
        let word = usize::try_from(at).ok().and_then(|at| list.words.get(at));
        match word {
            Some(word) => out.extend_from_slice(word.as_bytes()),
            None => f.fail(format!("word {at} of a list of {n}, from 0")),
        }
        word.is_some()
    }))
}
