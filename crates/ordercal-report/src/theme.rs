//! Accessible colours for light and dark backgrounds.

/// The colours of a figure.
///
/// The series use the palette of Okabe and Ito for colour-blind readers, with the lightness adjusted for a
/// contrast of at least 3:1 with the background. No figure relies on colour alone: every series also has its
/// own marker and dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// The background of the figure.
    pub background: &'static str,
    /// The background of a panel.
    pub panel: &'static str,
    /// Text.
    pub ink: &'static str,
    /// Notes and axis labels.
    pub muted: &'static str,
    /// Grid lines.
    pub grid: &'static str,
    /// The series; the first is for the uncalibrated scores, and eight methods have a colour of their own.
    pub series: [&'static str; 9],
    /// The six orders of three classes.
    pub regions: [&'static str; 6],
}

impl Theme {
    /// Dark on white.
    pub const LIGHT: Self = Self {
        background: "#ffffff",
        panel: "#f8f8f8",
        ink: "#1a1a1a",
        muted: "#555555",
        grid: "#dddddd",
        series: [
            "#5a5a5a", "#0072b2", "#d55e00", "#009a66", "#c04a9a", "#8a6d00", "#7a4fd0", "#a01828",
            "#2099b2",
        ],
        regions: [
            "#b9d7ea", "#f8dcc5", "#bfe6d8", "#edcfdf", "#f7e7ba", "#dcd3ee",
        ],
    };

    /// Bright on nearly black.
    pub const DARK: Self = Self {
        background: "#14171c",
        panel: "#1b2027",
        ink: "#ededed",
        muted: "#b3b8c0",
        grid: "#39414c",
        series: [
            "#c4c4c4", "#56b4e9", "#ff8c42", "#2cca9d", "#ff8bd4", "#ffc93e", "#a386fb", "#fb4865",
            "#a3f45d",
        ],
        regions: [
            "#1d4f6e", "#6b3d1f", "#1a5c4a", "#63384f", "#5f4c18", "#443a6b",
        ],
    };

    /// CSS variables that the page around an inline figure defines (see [`Theme::variables`]), so that one
    /// figure serves a light and a dark page.
    pub const PAGE: Self = Self {
        background: "none",
        panel: "var(--panel)",
        ink: "var(--ink)",
        muted: "var(--muted)",
        grid: "var(--grid)",
        series: [
            "var(--s0)",
            "var(--s1)",
            "var(--s2)",
            "var(--s3)",
            "var(--s4)",
            "var(--s5)",
            "var(--s6)",
            "var(--s7)",
            "var(--s8)",
        ],
        regions: [
            "var(--r0)",
            "var(--r1)",
            "var(--r2)",
            "var(--r3)",
            "var(--r4)",
            "var(--r5)",
        ],
    };

    /// The CSS variables that [`Theme::PAGE`] refers to, with the colours of this theme.
    pub fn variables(&self) -> String {
        let mut css = format!(
            "--background:{};--panel:{};--ink:{};--muted:{};--grid:{};",
            self.background, self.panel, self.ink, self.muted, self.grid
        );
        for (slot, colour) in self.series.iter().enumerate() {
            css.push_str(&format!("--s{slot}:{colour};"));
        }
        for (region, colour) in self.regions.iter().enumerate() {
            css.push_str(&format!("--r{region}:{colour};"));
        }
        css
    }

    /// The colour of a series; after the last, colours repeat.
    pub(crate) fn of(&self, slot: usize) -> &'static str {
        match slot {
            0 => self.series[0],
            // Grey is reserved for the uncalibrated scores.
            _ => self.series[1 + (slot - 1) % (self.series.len() - 1)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A channel of a colour, linear in the light.
    fn channel(colour: &str, at: usize) -> f64 {
        let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    }

    /// Relative luminance, as the Web Content Accessibility Guidelines define it.
    fn luminance(colour: &str) -> f64 {
        let [red, green, blue] = [1, 3, 5].map(|at| channel(colour, at));
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn everything_stands_out_from_what_is_behind_it() {
        for theme in [Theme::LIGHT, Theme::DARK] {
            for behind in [theme.background, theme.panel] {
                for colour in theme.series {
                    assert!(contrast(colour, behind) >= 3.0, "{colour} on {behind}");
                }
                assert!(contrast(theme.ink, behind) >= 7.0);
                assert!(contrast(theme.muted, behind) >= 4.5);
            }
            for region in theme.regions {
                assert!(contrast(theme.ink, region) >= 4.5, "ink on {region}");
            }
        }
    }

    /// The perceptual coordinates of a colour: OKLab (Ottosson, 2020).
    fn oklab(colour: &str) -> [f64; 3] {
        let [r, g, b] = [1, 3, 5].map(|at| channel(colour, at));
        let l = (0.412_221 * r + 0.536_333 * g + 0.051_446 * b).cbrt();
        let m = (0.211_903 * r + 0.680_700 * g + 0.107_397 * b).cbrt();
        let s = (0.088_302 * r + 0.281_719 * g + 0.629_979 * b).cbrt();
        [
            0.210_454 * l + 0.793_618 * m - 0.004_072 * s,
            1.977_998 * l - 2.428_592 * m + 0.450_594 * s,
            0.025_904 * l + 0.782_772 * m - 0.808_676 * s,
        ]
    }

    #[test]
    fn eight_methods_have_colours_that_are_told_apart() {
        for theme in [Theme::LIGHT, Theme::DARK] {
            for (place, one) in theme.series.iter().enumerate() {
                for other in &theme.series[..place] {
                    let (a, b) = (oklab(one), oklab(other));
                    let distance: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
                    assert!(distance.sqrt() > 0.11, "{one} and {other}: {distance}");
                }
            }
        }
    }

    #[test]
    fn a_page_defines_what_its_figures_use() {
        let css = Theme::LIGHT.variables();
        let page = Theme::PAGE;
        let used = [page.panel, page.ink, page.muted, page.grid];
        for colour in used.iter().chain(&page.series).chain(&page.regions) {
            let name = colour.trim_start_matches("var(").trim_end_matches(')');
            assert!(css.contains(&format!("{name}:#")), "{name} in {css}");
        }
    }

    #[test]
    fn grey_is_for_the_uncalibrated_alone() {
        for slot in 1..50 {
            assert_ne!(Theme::LIGHT.of(slot), Theme::LIGHT.of(0));
        }
    }
}
