//! Quotes arguments for a shell.

use model::text::shell::single_quoted;

/// A line that a POSIX shell splits into exactly these words.
pub(crate) fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<String>>().join(" ")
}

/// A word in single quotes, if it needs any.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    single_quoted(word)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_takes_the_words_apart_again() {
        let words =
            ["plain-word", "", "two words", "it's", "$HOME `id` \"x\" \\ ;|&*", "a\nb", "server.version=15"];
        let words = words.map(str::to_string);
        let script = format!("printf '%s\\0' {}", command(&words));
        let out = Command::new("sh").args(["-c", &script]).output().unwrap();
        let split: Vec<String> =
            String::from_utf8(out.stdout).unwrap().split_terminator('\0').map(str::to_string).collect();
        assert_eq!(split, words);
        assert_eq!(command(&words[..1]), "plain-word");
    }
}
