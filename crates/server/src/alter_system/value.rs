//! Values of settings as text: whether a server can accept one, and whether it is the one in effect. Pure.

/// What `pg_settings` says about the values of a setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kind {
    /// `bool`, `enum`, `integer`, `real` or `string`.
    pub(super) vartype: String,
    /// The unit of numbers: `8kB`, `ms`.
    pub(super) unit: Option<String>,
    pub(super) min: Option<String>,
    pub(super) max: Option<String>,
    /// Values of an `enum`, as far as they are shown.
    pub(super) words: Vec<String>,
}

impl Kind {
    /// Why the server will certainly not accept `text`; it may also refuse others.
    pub(super) fn fault(&self, text: &str) -> Option<String> {
        let text = text.trim();
        match self.vartype.as_str() {
            "bool" => truth(text).is_none().then(|| "is neither on nor off".to_string()),
            // Servers hide some of their words, all of which are those of a truth value.
            "enum" if self.is_shown(text) || truth(text).is_some() => None,
            "enum" => Some(format!("is not one of {}", self.words.join(", "))),
            "integer" | "real" => self.fault_of_number(text),
            _ => None,
        }
    }

    /// Whether a word may stand for another one: `on` of `wal_compression` is shown as `pglz`.
    fn is_alias(&self, wanted: &str, setting: &str) -> bool {
        match truth(wanted) {
            Some(on) => on != (truth(setting) == Some(false)),
            None => !self.is_shown(wanted),
        }
    }

    fn is_shown(&self, text: &str) -> bool {
        self.words.iter().any(|word| word.eq_ignore_ascii_case(text))
    }

    fn fault_of_number(&self, text: &str) -> Option<String> {
        if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
            return Some("is not a number".to_string());
        }
        let value = self.number(text)?;
        let bound = |text: &Option<String>| text.as_ref()?.parse::<f64>().ok();
        let is_outside = bound(&self.min).is_some_and(|min| value < min - 0.5)
            || bound(&self.max).is_some_and(|max| value > max + 0.5);
        is_outside.then(|| {
            let unit = self.unit.as_ref().map(|unit| format!(" (unit {unit})")).unwrap_or_default();
            format!(
                "is not in {}..{}{unit}",
                self.min.as_deref().unwrap_or_default(),
                self.max.as_deref().unwrap_or_default()
            )
        })
    }

    /// Whether `wanted` is higher than `setting`, which is in the setting's own unit; also if that cannot be known.
    pub(super) fn is_higher(&self, wanted: &str, setting: &str) -> bool {
        let wanted = self.number(wanted.trim());
        wanted.zip(setting.parse::<f64>().ok()).is_none_or(|(wanted, is)| wanted > is)
    }

    /// Whether `wanted` is known to be lower than `setting`, which is in the setting's own unit.
    pub(super) fn is_lower(&self, wanted: &str, setting: &str) -> bool {
        let wanted = self.number(wanted.trim());
        wanted.zip(setting.parse::<f64>().ok()).is_some_and(|(wanted, is)| wanted < is)
    }

    /// Whether `wanted` has taken effect as `setting`, which is in the setting's own unit. Texts, which a server may write in
    /// another way, and words that it hides count as the same.
    pub(super) fn is_same(&self, wanted: &str, setting: &str) -> bool {
        let wanted = wanted.trim();
        match self.vartype.as_str() {
            "bool" => truth(wanted).is_none_or(|on| truth(setting) == Some(on)),
            "enum" => wanted.eq_ignore_ascii_case(setting) || self.is_alias(wanted, setting),
            // A server rounds to whole units.
            "integer" => self.are_near(wanted, setting, 0.5),
            "real" => self.are_near(wanted, setting, 1e-6),
            _ => true,
        }
    }

    /// As [`Kind::is_same`], but a text is the same only if it is written the same.
    pub(super) fn is_same_exactly(&self, wanted: &str, setting: &str) -> bool {
        self.is_same(wanted, setting) && (self.vartype != "string" || wanted == setting)
    }

    fn are_near(&self, wanted: &str, setting: &str, distance: f64) -> bool {
        let setting = setting.parse::<f64>().ok();
        self.number(wanted).zip(setting).is_none_or(|(wanted, is)| (wanted - is).abs() <= distance)
    }

    /// A number with or without a unit, in the unit of the setting; none if it is written in a way that is not read here.
    fn number(&self, text: &str) -> Option<f64> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        // A leading zero means octal.
        if number.len() > 1 && number.starts_with('0') && !number.contains('.') {
            return None;
        }
        let value: f64 = number.parse().ok()?;
        match unit.trim() {
            "" => Some(value),
            unit => {
                let (of_text, of_setting) = (unit_of(unit)?, unit_of(self.unit.as_deref()?)?);
                (of_text.1 == of_setting.1).then(|| value * of_text.0 / of_setting.0)
            }
        }
    }
}

/// A truth value as PostgreSQL reads it: also the beginning of a word, where it is the only one.
fn truth(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" => Some(false),
        _ if begins("true", 1) || begins("yes", 1) => Some(true),
        _ if begins("false", 1) || begins("no", 1) || begins("off", 2) => Some(false),
        _ => None,
    }
}

/// A unit in bytes or microseconds, and which of the two. Units of settings may be multiples: `8kB`.
fn unit_of(text: &str) -> Option<(f64, char)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let (times, unit) = text.split_at(end);
    let times: f64 = if times.is_empty() { 1.0 } else { times.parse().ok()? };
    let (of_one, dimension) = match unit {
        "B" => (1.0, 'b'),
        "kB" => (1024.0, 'b'),
        "MB" => (1024.0 * 1024.0, 'b'),
        "GB" => (1024.0 * 1024.0 * 1024.0, 'b'),
        "TB" => (1024.0 * 1024.0 * 1024.0 * 1024.0, 'b'),
        "us" => (1.0, 't'),
        "ms" => (1e3, 't'),
        "s" => (1e6, 't'),
        "min" => (60e6, 't'),
        "h" => (3600e6, 't'),
        "d" => (86400e6, 't'),
        _ => return None,
    };
    Some((times * of_one, dimension))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(vartype: &str, unit: &str, range: (&str, &str)) -> Kind {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Kind {
            vartype: vartype.to_string(),
            unit: text(unit),
            min: text(range.0),
            max: text(range.1),
            words: Vec::new(),
        }
    }

    #[test]
    fn values_that_no_server_accepts_are_found() {
        let memory = kind("integer", "8kB", ("16", "1073741823"));
        let words =
            Kind { words: ["off", "pglz", "lz4"].map(str::to_string).into(), ..kind("enum", "", ("", "")) };
        for (kind, text, expected) in [
            (&memory, "1GB", None),
            (&memory, "0.5GB", None),
            (&memory, "16", None),
            (&memory, "64kB", Some("is not in 16..1073741823 (unit 8kB)")),
            (&memory, "900TB", Some("is not in 16..1073741823 (unit 8kB)")),
            (&memory, "much", Some("is not a number")),
            (&memory, "0x400", None),
            (&kind("bool", "", ("", "")), "of", None),
            (&kind("bool", "", ("", "")), "maybe", Some("is neither on nor off")),
            (&words, "LZ4", None),
            (&words, "true", None),
            (&words, "lz77", Some("is not one of off, pglz, lz4")),
            (&kind("string", "", ("", "")), "anything", None),
        ] {
            assert_eq!(kind.fault(text).as_deref(), expected, "{kind:?} {text}");
        }
    }

    #[test]
    fn a_value_is_known_again_in_the_unit_of_its_setting() {
        let memory = kind("integer", "kB", ("64", "2147483647"));
        let time = kind("integer", "s", ("1", "86400"));
        let real = kind("real", "", ("0", "1"));
        let text = kind("string", "", ("", ""));
        let words = Kind {
            words: ["pglz", "lz4", "on", "off"].map(str::to_string).into(),
            ..kind("enum", "", ("", ""))
        };
        for (kind, wanted, setting, expected) in [
            (&memory, "8MB", "8192", true),
            (&memory, "8MB", "4096", false),
            (&memory, " 8192 ", "8192", true),
            (&memory, "0.5 MB", "512", true),
            (&memory, "-1", "-1", true),
            (&time, "5min", "300", true),
            (&time, "1500ms", "2", true),
            (&time, "5min", "5", false),
            (&real, "0.9", "0.9", true),
            (&real, "0.9", "0.5", false),
            (&kind("bool", "", ("", "")), "yes", "on", true),
            (&kind("bool", "", ("", "")), "yes", "off", false),
            (&text, "iso", "ISO, DMY", true),
            (&words, "LZ4", "lz4", true),
            (&words, "lz4", "pglz", false),
            (&words, "on", "pglz", true),
            (&words, "on", "off", false),
            (&words, "off", "pglz", false),
            (&words, "no", "off", true),
        ] {
            assert_eq!(kind.is_same(wanted, setting), expected, "{wanted} {setting}");
        }
        assert!(!text.is_same_exactly("iso", "ISO, DMY") && text.is_same_exactly("a", "a"));
    }
}
