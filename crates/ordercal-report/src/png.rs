//! Figures as PNG files.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

use crate::error::{Error, Result};
use crate::svg::Svg;

/// The largest number of pixels: 64 million, which take 256 MB.
const MOST_PIXELS: f64 = 6.4e7;

/// A built-in font, so that figures look the same on every machine.
static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(include_bytes!("../fonts/DejaVuSans.subset.ttf").to_vec());
    fonts.load_font_data(include_bytes!("../fonts/DejaVuSans-Bold.subset.ttf").to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// Renders a figure as a PNG with `scale` pixels per unit of the drawing.
///
/// # Errors
/// If the scale is not positive, or so large that the PNG would have more than 64 million pixels.
pub fn to_png(svg: &Svg, scale: f64) -> Result<Vec<u8>> {
    // Rounded down, because a partly covered pixel would be a bright edge of a dark figure.
    let (width, height) = (
        (svg.width() * scale).floor().max(1.0),
        (svg.height() * scale).floor().max(1.0),
    );
    if !(scale > 0.0 && width * height <= MOST_PIXELS) {
        return Err(Error::Scale { scale });
    }
    let options = Options {
        font_family: "DejaVu Sans".to_owned(),
        fontdb: Arc::clone(&FONTS),
        ..Options::default()
    };
    let tree = Tree::from_str(svg.as_str(), &options).map_err(|e| Error::Draw {
        problem: e.to_string(),
    })?;
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or(Error::Scale { scale })?;
    let scaled = Transform::from_scale(scale as f32, scale as f32);
    resvg::render(&tree, scaled, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| Error::Draw {
        problem: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{Canvas, START, TEXT};
    use crate::theme::Theme;

    fn with_text(text: &str) -> Vec<u8> {
        let mut canvas = Canvas::new(Theme::LIGHT, 60.0, 20.0, "t");
        canvas.text((4.0, 14.0), START, "#000000", TEXT, text);
        to_png(&canvas.finish(), 2.0).unwrap()
    }

    #[test]
    fn text_is_drawn_with_the_font_that_ships() {
        let pixels = |png: &[u8]| Pixmap::decode_png(png).unwrap();
        let (empty, full) = (pixels(&with_text("")), pixels(&with_text("0.95₁ λ")));
        assert_eq!((full.width(), full.height()), (120, 40));
        let dark = |map: &Pixmap| map.pixels().iter().filter(|p| p.red() < 128).count();
        assert_eq!(dark(&empty), 0);
        assert!(dark(&full) > 100, "{}", dark(&full));
    }

    #[test]
    fn every_character_of_the_figures_is_in_the_font() {
        // A missing glyph is drawn as nothing or as a box; two missing ones look alike.
        let drawn: Vec<Vec<u8>> = ["λ", "β", "μ", "₁", "₂", "→", "−", "≈", "≤", "·", "–", "…"]
            .iter()
            .map(|c| with_text(c))
            .collect();
        for (place, one) in drawn.iter().enumerate() {
            assert!(
                drawn[place + 1..].iter().all(|other| other != one),
                "{place}"
            );
            assert_ne!(one, &with_text("\u{4e00}"));
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let svg = Canvas::new(Theme::LIGHT, 600.0, 400.0, "t").finish();
        for scale in [0.0, -1.0, f64::NAN, 1e3, f64::INFINITY] {
            assert!(
                matches!(to_png(&svg, scale), Err(Error::Scale { .. })),
                "{scale}"
            );
        }
    }
}
