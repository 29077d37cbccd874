//! Takes parts out of the tree of a TOML file by their positions.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Takes out what an error at `span` refuses: a key with its value, or an element of a list. Returns the position of the
/// table from which something is gone.
pub(super) fn take_out(tree: &mut Spanned<DeTable>, span: &Range<usize>) -> Option<Range<usize>> {
    let root = tree.span();
    let is_it = |key: Option<Range<usize>>, value: Range<usize>| key.as_ref() == Some(span) || value == *span;
    // A reader of its own may refuse a part of a value.
    let contains = |key: Option<Range<usize>>, value: Range<usize>| {
        key.into_iter().chain([value]).any(|outer| outer.start <= span.start && span.end <= outer.end)
    };
    let path = find_in_table(tree.get_ref(), &is_it).or_else(|| deepest(tree.get_ref(), &contains))?;
    let (_, parent) = (path.last()?, &path[..path.len() - 1]);
    let gap = span_at(tree.get_ref(), parent).unwrap_or(root);
    remove_from_table(tree.get_mut(), &path);
    Some(gap)
}

/// Adds the sections of `text` that the tree lacks; whether there are any.
pub(super) fn add_missing(table: &mut DeTable, text: &'static str) -> bool {
    let n_before = table.len();
    for (key, value) in DeTable::parse(text).into_iter().flat_map(Spanned::into_inner) {
        if !table.keys().any(|known| known.get_ref() == key.get_ref()) {
            table.insert(key, value);
        }
    }
    table.len() > n_before
}

/// Where a part is: its number in the root, its number in that, and so on.
type Path = Vec<usize>;
/// Judges a part by the positions of its key, if it has one, and its value.
type Judge<'a> = &'a dyn Fn(Option<Range<usize>>, Range<usize>) -> bool;

/// The parts of a table or list, each with the position of its key.
fn parts<'a, 'i>(value: &'a DeValue<'i>) -> Vec<(Option<Range<usize>>, &'a Spanned<DeValue<'i>>)> {
    match value {
        DeValue::Table(table) => of_table(table),
        DeValue::Array(array) => array.iter().map(|element| (None, element)).collect(),
        _ => Vec::new(),
    }
}

fn of_table<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(Option<Range<usize>>, &'a Spanned<DeValue<'i>>)> {
    table.iter().map(|(key, value)| (Some(key.span()), value)).collect()
}

/// The first part that is meant, in depth.
fn find_in_table(table: &DeTable, is_it: Judge) -> Option<Path> {
    find(of_table(table), is_it)
}

fn find(parts_of: Vec<(Option<Range<usize>>, &Spanned<DeValue>)>, is_it: Judge) -> Option<Path> {
    parts_of.into_iter().enumerate().find_map(|(n, (key, part))| {
        if is_it(key, part.span()) {
            return Some(vec![n]);
        }
        let mut path = find(parts(part.get_ref()), is_it)?;
        path.insert(0, n);
        Some(path)
    })
}

/// The innermost part that fits, where each part that contains another fits as well.
fn deepest(table: &DeTable, fits: Judge) -> Option<Path> {
    let mut path = find_in_table(table, fits)?;
    loop {
        let at = value_at(table, &path)?;
        match find(parts(at.get_ref()), fits) {
            Some(further) => path.extend(further),
            None => return Some(path),
        }
    }
}

fn value_at<'a, 'i>(table: &'a DeTable<'i>, path: &[usize]) -> Option<&'a Spanned<DeValue<'i>>> {
    let (first, rest) = path.split_first()?;
    let (_, mut value) = table.iter().nth(*first)?;
    for n in rest {
        value = parts(value.get_ref()).into_iter().nth(*n)?.1;
    }
    Some(value)
}

fn span_at(table: &DeTable, path: &[usize]) -> Option<Range<usize>> {
    value_at(table, path).map(Spanned::span)
}

fn remove_from_table(table: &mut DeTable, path: &[usize]) {
    match path {
        [] => {}
        [n] => {
            let kept = std::mem::take(table).into_iter().enumerate().filter(|(number, _)| number != n);
            *table = kept.map(|(_, part)| part).collect();
        }
        [n, rest @ ..] => {
            let Some((_, value)) = table.iter_mut().nth(*n) else { return };
            remove(value.get_mut(), rest);
            // A list without elements would be refused as well.
            if matches!(value.get_ref(), DeValue::Array(array) if array.is_empty()) {
                remove_from_table(table, &[*n]);
            }
        }
    }
}

fn remove(value: &mut DeValue, path: &[usize]) {
    match (value, path) {
        (DeValue::Table(table), _) => remove_from_table(table, path),
        (DeValue::Array(array), [n]) => {
            let kept = std::mem::replace(array, DeArray::new())
                .into_iter()
                .enumerate()
                .filter(|(number, _)| number != n);
            *array = kept.map(|(_, element)| element).collect();
        }
        (DeValue::Array(array), [n, rest @ ..]) => {
            array.get_mut(*n).into_iter().for_each(|element| remove(element.get_mut(), rest));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_at_a_position_is_taken_out_and_nothing_else() {
        let check = |text: &str, refused: &str, expected: &str| {
            let start = text.find(refused).unwrap();
            let mut tree = DeTable::parse(text).unwrap();
            take_out(&mut tree, &(start..start + refused.len())).unwrap();
            let rest: toml::Table =
                serde::Deserialize::deserialize(toml::de::Deserializer::from(tree)).unwrap();
            assert_eq!(rest, expected.parse::<toml::Table>().unwrap(), "{text}: {refused}");
        };
        check("a = 1\nb = 2\n", "b", "a = 1\n");
        check("a = 1\nb = 2\n", "2", "a = 1\n");
        check("x = {a = 1, b = 2, c = 3}\n", "b", "x = {a = 1, c = 3}\n");
        check("x = [10, 20, 30]\n", "20", "x = [10, 30]\n");
        check("x = [10]\ny = 3\n", "10", "y = 3\n");
        check("[[t]]\na = 1\nb = 2\n[[t]]\na = 3\nd = 4\n", "d", "[[t]]\na = 1\nb = 2\n[[t]]\na = 3\n");
        check("r.a = 1\nr.b = 22\n", "22", "r.a = 1\n");
        // A part of a value.
        check("a = \"one two\"\nb = 2\n", "two", "b = 2\n");
    }
}
