//! SVG files drawn as PNG. It is a crate of its own because it takes a tenth of a whole build, and only `knee report --figures`
//! needs it.
#![forbid(unsafe_code)]

use resvg::{tiny_skia, usvg};

/// Draws SVG files as PNG.
pub struct Painter {
    options: usvg::Options<'static>,
}

/// Pixels of a PNG in one of the SVG: on a screen, and on paper, where an inch of 96 has 300.
const ZOOM: f32 = 2.0;
const PAPER_ZOOM: f32 = 300.0 / 96.0;

impl Painter {
    /// With a font of our own, so that every machine draws the same.
    #[must_use]
    pub fn new() -> Painter {
        let mut options = usvg::Options::default();
        let fonts = options.fontdb_mut();
        fonts.load_font_data(include_bytes!("../font/DejaVuSans.ttf").to_vec());
        fonts.load_font_data(include_bytes!("../font/DejaVuSans-Bold.ttf").to_vec());
        options.font_family = "DejaVu Sans".into();
        Painter { options }
    }

    /// A PNG.
    ///
    /// # Errors
    /// Says why there is none.
    pub fn png(&self, svg: &str) -> Result<Vec<u8>, String> {
        self.draw(svg, ZOOM)
    }

    /// A PNG with 300 pixels an inch, of an SVG that says its width in inches.
    ///
    /// # Errors
    /// Says why there is none.
    pub fn paper(&self, svg: &str) -> Result<Vec<u8>, String> {
        self.draw(svg, PAPER_ZOOM)
    }

    fn draw(&self, svg: &str, zoom: f32) -> Result<Vec<u8>, String> {
        let tree = usvg::Tree::from_str(svg, &self.options).map_err(|why| why.to_string())?;
        let size = tree.size().to_int_size().scale_by(zoom).ok_or("has no size")?;
        let mut pixels =
            tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("is too large")?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(zoom, zoom), &mut pixels.as_mut());
        pixels.encode_png().map_err(|why| why.to_string())
    }
}

impl Default for Painter {
    fn default() -> Painter {
        Painter::new()
    }
}
