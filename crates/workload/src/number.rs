//! Numbers to text and back, as PostgreSQL's printf and C's strtod do it, without allocating on the hot path.

use std::io::Write;

/// "00" to "99".
pub(crate) const PAIRS: &[u8; 200] =
    b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Appends `value` in decimal, two digits at a time.
#[inline]
pub fn write_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_uint(out, value.unsigned_abs());
}

/// Appends `value` in decimal, two digits at a time.
#[inline]
pub fn write_uint(out: &mut Vec<u8>, mut value: u64) {
    /// Digits of the largest value.
    const DIGITS_MAX: usize = 20;
    let start = out.len();
    let mut end = start + value.checked_ilog10().map_or(1, |log| log as usize + 1);
    // Reserving a length that is known at compile time needs no call; the surplus is truncated.
    out.extend_from_slice(&[0; DIGITS_MAX]);
    out.truncate(end);
    let digits = &mut out[start..];
    end -= start;
    while value >= 10 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        digits[end - 2..end].copy_from_slice(&PAIRS[pair..pair + 2]);
        end -= 2;
    }
    if end == 1 {
        digits[0] = b'0' + value as u8;
    }
}

/// Appends `value` as printf's `%.15g`.
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    if let Some(word) = not_finite(value) {
        out.extend_from_slice(word.as_bytes());
        return;
    }
    // The widest form is "-d.dddddddddddddde-308": 22 bytes.
    let mut buffer = [0u8; 32];
    let room = buffer.len();
    let mut rest = &mut buffer[..];
    write!(rest, "{value:.14e}").expect("15 digits and an exponent fit 32 bytes");
    let len = room - rest.len();
    let scientific = std::str::from_utf8(&buffer[..len]).expect("float formatting is ASCII");
    let (mantissa, exponent) = scientific.split_once('e').expect("`e` formatting has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    out.extend_from_slice(sign.as_bytes());
    let mut digits = [0u8; 15];
    for (digit, byte) in digits.iter_mut().zip(mantissa.bytes().filter(u8::is_ascii_digit)) {
        *digit = byte;
    }
    let significant = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    write_digits(out, &digits[..significant], exponent);
}

/// `%g`'s choice: plain notation for exponents from -4 to 14, else scientific; no trailing zeroes.
fn write_digits(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    if !(-4..15).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        out.push(if exponent < 0 { b'-' } else { b'+' });
        if exponent.unsigned_abs() < 10 {
            out.push(b'0');
        }
        write_uint(out, u64::from(exponent.unsigned_abs()));
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
        } else {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

fn not_finite(value: f64) -> Option<&'static str> {
    // As PostgreSQL's own printf spells them, which pgbench uses.
    match (value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        (true, _, _) => Some("NaN"),
        (_, true, false) => Some("Infinity"),
        (_, true, true) => Some("-Infinity"),
        _ => None,
    }
}

/// `value` as printf's `%.15g`.
pub fn double_to_string(value: f64) -> String {
    let mut out = Vec::new();
    write_double(&mut out, value);
    String::from_utf8(out).expect("numbers are ASCII")
}

/// `value` as printf's `%f`.
pub fn c_float(value: f64) -> String {
    not_finite(value).map_or_else(|| format!("{value:.6}"), str::to_owned)
}

/// Whether `text` looks like an integer to pgbench: blanks, a sign, digits to the end. As there, a bare sign passes.
pub(crate) fn looks_like_int(text: &str) -> bool {
    let text = text.trim_start_matches(is_c_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The hexadecimal number that `text` starts with, as C's strtod reads it (`0x1.8p3`), and its length. Digits beyond a
/// double's 53 bits are rounded one by one.
pub fn leading_hex(text: &str) -> Option<(f64, usize)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"))?;
    let (whole, mut rest) = number.split_at(hex_len(number));
    let mut fraction = "";
    if let Some(behind) = rest.strip_prefix('.') {
        (fraction, rest) = behind.split_at(hex_len(behind));
    }
    let digits = || whole.chars().chain(fraction.chars()).filter_map(|c| c.to_digit(16));
    // Without a digit there is no number.
    digits().next()?;
    let mantissa = digits().fold(0.0, |sum, digit| sum * 16.0 + f64::from(digit));
    let (exponent, exponent_len) = binary_exponent(rest);
    let value = mantissa * (exponent - 4.0 * fraction.len() as f64).exp2();
    let len = text.len() - rest.len() + exponent_len;
    Some((if text.starts_with('-') { -value } else { value }, len))
}

fn hex_len(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_hexdigit).count()
}

/// `p` and an exponent, and its length; without digits there is none.
fn binary_exponent(text: &str) -> (f64, usize) {
    let Some(behind) = text.strip_prefix(['p', 'P']) else { return (0.0, 0) };
    let unsigned = behind.strip_prefix(['+', '-']).unwrap_or(behind);
    let n_digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let len = text.len() - unsigned.len() + n_digits;
    text[1..len].parse().map_or((0.0, 0), |exponent| (exponent, len))
}

/// C's strtod over the whole text: `None` for other text, and for what does not fit a double or loses all precision.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(is_c_space);
    if let Some((value, len)) = leading_hex(text) {
        return (len == text.len() && value.is_finite()).then_some(value);
    }
    let value: f64 = text.parse().ok()?;
    let bare = text.trim_start_matches(['+', '-']);
    let is_digits = bare.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if value.is_infinite() && is_digits {
        return None;
    }
    let mantissa = bare.split(['e', 'E']).next().unwrap_or(bare);
    let is_nonzero = mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if is_digits && is_nonzero && (value == 0.0 || value.is_subnormal()) {
        return None;
    }
    Some(value)
}

/// C's isspace in the C locale.
pub(crate) fn is_c_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
