//! The scales of the style sheet are what they claim: ordered, distinct for every kind of colour vision, legible.

use super::*;

const CSS: &str = include_str!("../../../assets/page.css");

/// Linear red, green and blue.
type Rgb = [f64; 3];

/// A variable of the style sheet in the light and the dark theme.
fn both(name: &str) -> [Rgb; 2] {
    let start = CSS
        .find(&format!("--{name}: light-dark("))
        .unwrap_or_else(|| panic!("--{name} is not in the style sheet"));
    let inner = CSS[start..].split_once('(').unwrap().1.split_once(')').unwrap().0;
    let (light, dark) = inner.split_once(", ").unwrap();
    [rgb(light), rgb(dark)]
}

fn rgb(hex: &str) -> Rgb {
    let channel = |at: usize| {
        let c = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    [channel(1), channel(3), channel(5)]
}

fn times(matrix: &[Rgb; 3], of: Rgb) -> Rgb {
    matrix.map(|row| row.iter().zip(of).map(|(a, b)| a * b).sum::<f64>())
}

/// Contrast of WCAG 2.2.
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let light = |c: Rgb| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
    let (a, b) = (light(a), light(b));
    a.max(b) / a.min(b)
}

/// Ottosson's Oklab (2020).
fn oklab(of: Rgb) -> Rgb {
    let cones = times(
        &[
            [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
            [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
            [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
        ],
        of,
    );
    times(
        &[
            [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
            [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
            [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
        ],
        cones.map(f64::cbrt),
    )
}

fn distance(a: Rgb, b: Rgb) -> f64 {
    oklab(a).iter().zip(oklab(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// Kinds of colour vision: none lacking, red, green or blue cones lacking (Machado, Oliveira and Fernandes 2009).
const VISIONS: [[Rgb; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ],
    [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ],
    [
        [1.255_528, -0.076_749, -0.178_779],
        [-0.078_411, 0.930_809, 0.147_602],
        [0.004_733, 0.691_367, 0.303_900],
    ],
];

#[test]
fn neighbours_of_the_ordered_scale_differ_for_every_kind_of_colour_vision() {
    let steps: Vec<[Rgb; 2]> = (0..STEPS).map(|n| both(&format!("o{n}"))).collect();
    let page = both("page");
    for theme in 0..2 {
        let scale: Vec<Rgb> = steps.iter().map(|step| step[theme]).collect();
        let lightness = |of: &Rgb| oklab(*of)[0];
        let is_rising = scale.windows(2).all(|pair| lightness(&pair[0]) < lightness(&pair[1]));
        let is_falling = scale.windows(2).all(|pair| lightness(&pair[0]) > lightness(&pair[1]));
        assert!(if theme == 0 { is_falling } else { is_rising }, "theme {theme}: the tail stands out");
        for (n, step) in scale.iter().enumerate() {
            // Graphical objects: WCAG 2.2, 1.4.11.
            assert!(contrast(*step, page[theme]) >= 2.99, "theme {theme}: step {n} is faint");
        }
        for (kind, vision) in VISIONS.iter().enumerate() {
            let seen: Vec<Rgb> = scale.iter().map(|c| times(vision, *c).map(|x| x.clamp(0.0, 1.0))).collect();
            for (n, pair) in seen.windows(2).enumerate() {
                let far = distance(pair[0], pair[1]);
                assert!(far >= 0.03, "theme {theme}, vision {kind}: steps {n} and {} differ by {far}", n + 1);
            }
        }
    }
}

#[test]
fn figures_in_the_cells_of_a_heat_map_are_legible() {
    for n in 0..crate::html::HEAT_STEPS {
        let (cell, figure) = (both(&format!("h{n}")), both(&format!("ht{n}")));
        for theme in 0..2 {
            let found = contrast(cell[theme], figure[theme]);
            assert!(found >= 4.5, "theme {theme}, step {n}: {found}");
        }
    }
}

#[test]
fn colours_follow_the_order_of_levels_and_no_panel_has_more_hues_than_readers_distinguish() {
    use Colour::{Hue, Step};
    let check =
        |n: usize, is_ordered: bool, expected: &[Colour]| assert_eq!(of_levels(n, is_ordered), expected);
    check(0, true, &[]);
    check(1, false, &[Hue(0)]);
    check(1, true, &[Hue(0)]);
    check(2, true, &[Hue(0), Hue(1)]);
    check(3, true, &[Step(0), Step(6), Step(11)]);
    check(4, true, &[Step(0), Step(4), Step(7), Step(11)]);
    check(9, false, &[Hue(0); 9]);
    for n in 3..=STEPS {
        let mut steps = of_levels(n, true);
        steps.dedup();
        assert_eq!(steps.len(), n, "{n} levels have as many steps");
    }
    let hues: std::collections::BTreeSet<String> = (0..30).map(|n| of_levels(30, false)[n].class()).collect();
    assert_eq!(hues.len(), 1);
}
