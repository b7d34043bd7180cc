//! Tables, figures and reports about calibration: numbers in, documents out.
//!
//! Nothing here reads or writes files or fits a model. A figure is a plain struct with its numbers and a
//! method `draw` that gives an [`Svg`]; `to_png` (feature `png`, on unless it is left out) makes pixels of it, with
//! a font that is part of the program. Colours come from a [`Theme`].
//!
//! ```
//! use ordercal_report::{Curve, Theme, TransformFigure, to_png};
//!
//! let figure = TransformFigure {
//!     title: "a temperature of 2".into(),
//!     input: "score".into(),
//!     curves: vec![Curve { name: "ts".into(), slot: 1, points: vec![(-4.0, -2.0), (0.0, 0.0)] }],
//!     scores: None,
//! };
//! let svg = figure.draw(Theme::LIGHT)?;
//! assert!(svg.as_str().contains("a temperature of 2"));
//! assert!(to_png(&svg, 1.0)?.starts_with(b"\x89PNG"));
//! # Ok::<(), ordercal_report::Error>(())
//! ```

mod chart;
mod comparison;
mod error;
mod figure;
mod html;
mod json;
#[cfg(feature = "png")]
mod png;
mod result;
mod scale;
mod summary;
mod svg;
mod table;
mod theme;
mod verdict;

pub use comparison::{Comparison, UNCALIBRATED};
pub use error::{Error, Result};
pub use figure::{
    Arrow, Bar, BarFigure, Curve, Histogram, LineFigure, LinePanel, LinePoint, LineSeries,
    ReliabilityFigure, ReliabilityForm, ReliabilitySeries, SimplexFigure, TransformFigure,
    region_of,
};
pub use html::{DataSource, Report, ReportFigure};
pub use json::to_json;
#[cfg(feature = "png")]
pub use png::to_png;
pub use result::{DatasetResult, MethodResult};
pub use summary::{summary, tables};
pub use svg::Svg;
pub use table::{
    Cell, Column, Described, FREE_NOTE, INFINITE_NOTE, KEPT_NOTE, MARK_NOTE, Row, Table, describe,
    to_csv, to_latex, to_markdown, to_text,
};
pub use theme::Theme;
pub use verdict::{best_method, deciding_metric, verdict};
