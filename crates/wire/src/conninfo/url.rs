//! URLs of the form `postgres://user:password@host:port,host:port/database?key=value`, as libpq reads them.

use super::settings::{Settings, store};

/// The settings of a URL. The error is in libpq's words.
pub(super) fn parse(url: &str) -> Result<Settings, String> {
    let mut settings = Settings::new();
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = read_user(&url[start..], &mut settings)?;

    let (rest, end) = read_hosts(rest, url, &mut settings)?;
    let (rest, end) = match end {
        Some('/') => {
            let database = read_until(rest, &['?']);
            set(&mut settings, "dbname", database.text)?;
            (database.rest, database.end)
        }
        _ => (rest, end),
    };

    if end.is_some() {
        read_parameters(rest, &mut settings)?;
    }
    Ok(settings)
}

/// The text before one of some characters.
struct Piece<'a> {
    text: &'a str,
    /// What follows the character that ends it.
    rest: &'a str,
    /// That character; `None` at the end of the text.
    end: Option<char>,
}

fn read_until<'a>(text: &'a str, ends: &[char]) -> Piece<'a> {
    match text.find(ends) {
        None => Piece { text, rest: "", end: None },
        Some(at) => {
            let end = text[at..].chars().next();
            Piece { text: &text[..at], rest: &text[at + end.map_or(0, char::len_utf8)..], end }
        }
    }
}

/// Reads `user:password@` if it is there. The first `@` counts.
fn read_user<'a>(text: &'a str, settings: &mut Settings) -> Result<&'a str, String> {
    let before = read_until(text, &['@', '/']);
    if before.end != Some('@') {
        return Ok(text);
    }
    let (user, password) = before.text.split_once(':').unwrap_or((before.text, ""));
    set(settings, "user", user)?;
    set(settings, "password", password)?;
    Ok(before.rest)
}

/// Reads the list of hosts with their ports, and the character behind it.
fn read_hosts<'a>(
    text: &'a str,
    url: &str,
    settings: &mut Settings,
) -> Result<(&'a str, Option<char>), String> {
    let (mut hosts, mut ports) = (String::new(), String::new());
    let mut rest = text;
    loop {
        let host = match rest.strip_prefix('[') {
            Some(bracketed) => read_address(bracketed, url)?,
            None => read_until(rest, &[':', '/', '?', ',']),
        };
        hosts.push_str(host.text);

        let port = if host.end == Some(':') {
            read_until(host.rest, &['/', '?', ','])
        } else {
            Piece { text: "", ..host }
        };
        ports.push_str(port.text);

        rest = port.rest;
        if port.end != Some(',') {
            set(settings, "host", &hosts)?;
            set(settings, "port", &ports)?;
            return Ok((rest, port.end));
        }
        hosts.push(',');
        ports.push(',');
    }
}

/// Reads an IPv6 address without its opening bracket, and the character behind the closing one.
fn read_address<'a>(text: &'a str, url: &str) -> Result<Piece<'a>, String> {
    let Some((address, after)) = text.split_once(']') else {
        return Err(format!(
            "end of string reached when looking for matching \"]\" in IPv6 host address in URI: \"{url}\""
        ));
    };
    if address.is_empty() {
        return Err(format!("IPv6 host address may not be empty in URI: \"{url}\""));
    }
    let end = after.chars().next();
    match end {
        None => Ok(Piece { text: address, rest: "", end }),
        Some(':' | '/' | '?' | ',') => Ok(Piece { text: address, rest: &after[1..], end }),
        Some(other) => {
            let position = url.len() - after.len() + 1;
            Err(format!(
                "unexpected character \"{other}\" at position {position} in URI (expected \":\" or \"/\"): \"{url}\""
            ))
        }
    }
}

fn read_parameters(text: &str, settings: &mut Settings) -> Result<(), String> {
    // A `&` at the end is none too many.
    for parameter in text.split_terminator('&') {
        let Some((keyword, value)) = parameter.split_once('=') else {
            return Err(format!("missing key/value separator \"=\" in URI query parameter: \"{parameter}\""));
        };
        if value.contains('=') {
            return Err(format!("extra key/value separator \"=\" in URI query parameter: \"{keyword}\""));
        }
        let keyword = String::from_utf8_lossy(&decode(keyword)?).into_owned();
        let value = decode(value)?;
        // What JDBC's URLs say.
        let stored = if keyword == "ssl" && value == b"true" {
            store(settings, "sslmode", b"require")
        } else {
            store(settings, &keyword, &value)
        };
        stored.map_err(|_| format!("invalid URI query parameter: \"{keyword}\""))?;
    }
    Ok(())
}

/// Sets what is not empty: an empty value would hide that of the environment.
fn set(settings: &mut Settings, keyword: &str, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    store(settings, keyword, &decode(value)?).map_err(|_| format!("invalid connection option \"{keyword}\""))
}

/// Replaces percent-encoded bytes. Spaces around the text do not count; one within is a mistake.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut rest = text.trim_start_matches(' ').as_bytes();
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b' ' {
            break;
        }
        rest = after;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = rest.split_at_checked(2).and_then(|(digits, after)| Some((hex(digits)?, after)));
        let Some((byte, after)) = digits else {
            return Err(format!("invalid percent-encoded token: \"{text}\""));
        };
        if byte == 0 {
            return Err(format!("forbidden value %00 in percent-encoded value: \"{text}\""));
        }
        decoded.push(byte);
        rest = after;
    }
    if rest.iter().any(|&byte| byte != b' ') {
        return Err(format!(
            "unexpected spaces found in \"{text}\", use percent-encoded spaces (%20) instead"
        ));
    }
    Ok(decoded)
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match digits {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    }
}
