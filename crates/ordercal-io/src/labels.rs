//! Labels as class indices.

use std::collections::HashMap;
use std::path::Path;

use ndarray::Array2;

use crate::array::{AnyArray, Values};
use crate::error::{Error, Result, clean};
use crate::nearest::nearest;

/// Turns labels into class indices. Labels are integers, floats with integer values, names, or one-hot N×K; floats N×K
/// that are not one-hot are distributions over the classes.
///
/// It is the dataset that checks whether an index is below the number of classes.
pub(crate) struct LabelDecoder {
    names: Option<HashMap<String, i64>>,
    /// The names as numbers, if all of them are integers: then numbers among the labels are names, not indices.
    numbers: Option<HashMap<i64, i64>>,
    /// A name that stands for rows to leave out.
    ignored_name: Option<String>,
    /// A number that does.
    ignored_number: Option<i64>,
}

/// Labels that were decoded.
#[derive(Debug, PartialEq)]
pub(crate) enum Labels {
    /// A class for every row.
    Classes(Vec<i64>),
    /// A distribution over the classes for every row, N×K, unchecked.
    Shares(Array2<f64>),
}

/// Classes in another order than that of the columns.
pub(crate) struct ClassOrder {
    /// For each class its column.
    pub(crate) columns: Vec<usize>,
    /// For each column its class.
    classes: Vec<i64>,
}

impl ClassOrder {
    pub(crate) fn new(columns: Vec<usize>) -> Self {
        let mut classes = vec![0; columns.len()];
        for (class, &column) in columns.iter().enumerate() {
            classes[column] = class as i64;
        }
        Self { columns, classes }
    }

    /// Replaces the numbers of columns by those of classes. A label that is no class stays as it is; the dataset
    /// refuses it.
    pub(crate) fn relabel(&self, labels: &mut [i64]) {
        for label in labels {
            let column = usize::try_from(*label).unwrap_or(usize::MAX);
            *label = self.classes.get(column).copied().unwrap_or(*label);
        }
    }
}

/// What a label to ignore is decoded as.
pub(crate) const IGNORED: i64 = i64::MIN;

impl LabelDecoder {
    /// A decoder for labels that are numbers, or names among `names` in the order of the classes.
    /// Labels equal to `ignored` become [`IGNORED`].
    pub(crate) fn new(names: Option<&[String]>, ignored: Option<&str>) -> Self {
        let indexed = |names: &[String]| -> HashMap<String, i64> {
            let names = names.iter().enumerate();
            names.map(|(i, name)| (name.clone(), i as i64)).collect()
        };
        let names = names.map(indexed);
        let as_numbers = |names: &HashMap<String, i64>| {
            let number = |(name, &i): (&String, &i64)| Some((parse_integer(name)?, i));
            names.iter().map(number).collect()
        };
        Self {
            numbers: names.as_ref().and_then(as_numbers),
            names,
            ignored_name: ignored.map(|label| label.trim().to_owned()),
            ignored_number: ignored.and_then(parse_integer),
        }
    }

    /// The class index of each row. `first_row` is the array's first row, counted from the start of the file.
    pub(crate) fn decode(&self, path: &Path, array: AnyArray, first_row: usize) -> Result<Labels> {
        let columns = array.shape.get(1).copied().unwrap_or(1);
        if columns > 1 {
            return one_hot_or_soft(path, &array, columns, first_row);
        }
        self.classes(path, array, first_row).map(Labels::Classes)
    }

    fn classes(&self, path: &Path, array: AnyArray, first_row: usize) -> Result<Vec<i64>> {
        let place = |row: usize| (path, first_row + row);
        match array.values {
            Values::Int(labels) if self.numbers.is_none() && self.ignored_number.is_none() => {
                Ok(labels)
            }
            Values::Int(labels) => {
                let labels = labels.into_iter().enumerate();
                labels.map(|(row, l)| self.number(l, place(row))).collect()
            }
            Values::Text(labels) => {
                let labels = labels.iter().enumerate();
                labels.map(|(row, l)| self.text(l, place(row))).collect()
            }
            values => {
                let labels = to_f64(&values).into_iter().enumerate();
                labels
                    .map(|(row, value)| {
                        let label = integer(value).ok_or_else(|| Error::LabelNotInteger {
                            path: path.to_path_buf(),
                            row: first_row + row,
                            value,
                        })?;
                        self.number(label, place(row))
                    })
                    .collect()
            }
        }
    }

    /// The index of a label that is a number.
    fn number(&self, label: i64, (path, row): (&Path, usize)) -> Result<i64> {
        if self.ignored_number == Some(label) {
            return Ok(IGNORED);
        }
        let Some(numbers) = &self.numbers else {
            return Ok(label);
        };
        let named = numbers.get(&label).copied();
        named.ok_or_else(|| Error::UnknownLabel {
            path: path.to_path_buf(),
            row,
            label: label.to_string(),
            hint: "; the class names are numbers, so labels are taken for names".to_owned(),
        })
    }

    /// The index of a label that is text.
    fn text(&self, label: &str, (path, row): (&Path, usize)) -> Result<i64> {
        if self.ignored_name.as_deref() == Some(label.trim()) {
            return Ok(IGNORED);
        }
        let named = self.names.as_ref().and_then(|names| names.get(label));
        if let Some(&class) = named {
            return Ok(class);
        }
        if let Some(label) = parse_integer(label) {
            return self.number(label, (path, row));
        }
        let path = path.to_path_buf();
        // A fraction is another mistake than a misspelt name.
        if let Ok(value) = label.trim().parse::<f64>() {
            return Err(Error::LabelNotInteger { path, row, value });
        }
        let Some(names) = &self.names else {
            return Err(Error::ClassNamesNeeded {
                path,
                row,
                label: clean(label),
            });
        };
        let hint = nearest(label, names.keys().map(String::as_str))
            .map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        Err(Error::UnknownLabel {
            path,
            row,
            label: clean(label),
            hint: clean(&hint),
        })
    }
}

fn parse_integer(text: &str) -> Option<i64> {
    let text = text.trim();
    text.parse()
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(integer))
}

/// The integer that a float is equal to, if there is one.
fn integer(value: f64) -> Option<i64> {
    // Beyond 2^53 floats skip integers; no data set has that many classes.
    (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
}

/// Numbers of any type as `f64`; empty for text.
pub(crate) fn to_f64(values: &Values) -> Vec<f64> {
    match values {
        Values::F16(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Values::Bf16(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Values::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Values::F64(v) => v.clone(),
        Values::Int(v) => v.iter().map(|&x| x as f64).collect(),
        Values::Text(_) => Vec::new(),
    }
}

/// Floats that are not one-hot are soft labels.
fn one_hot_or_soft(
    path: &Path,
    array: &AnyArray,
    columns: usize,
    first_row: usize,
) -> Result<Labels> {
    let hard = one_hot(path, array, columns, first_row);
    let soft = || {
        let values = to_f64(&array.values);
        Array2::from_shape_vec((values.len() / columns, columns), values).ok()
    };
    match hard {
        Err(_) if array.dtype.is_float() => soft().map_or(hard.map(Labels::Classes), |shares| {
            Ok(Labels::Shares(shares))
        }),
        hard => hard.map(Labels::Classes),
    }
}

fn one_hot(path: &Path, array: &AnyArray, columns: usize, first_row: usize) -> Result<Vec<i64>> {
    let values = to_f64(&array.values);
    let class = |(row, values): (usize, &[f64])| {
        let mut hot = None;
        for (column, &value) in values.iter().enumerate() {
            // 0 and 1 are exact in every type.
            #[allow(clippy::float_cmp)]
            if value == 1.0 && hot.is_none() {
                hot = Some(column as i64);
            } else if value != 0.0 {
                hot = None;
                break;
            }
        }
        hot.ok_or_else(|| Error::NotOneHot {
            path: path.to_path_buf(),
            row: first_row + row,
        })
    };
    values
        .chunks_exact(columns)
        .enumerate()
        .map(class)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ElementType;

    fn decode(shape: &[usize], dtype: ElementType, values: Values) -> Result<Vec<i64>> {
        let array = AnyArray {
            shape: shape.to_vec(),
            dtype,
            values,
        };
        classes_of(LabelDecoder::new(None, Some("-100")).decode(Path::new("f"), array, 10)?)
    }

    fn classes_of(labels: Labels) -> Result<Vec<i64>> {
        match labels {
            Labels::Classes(classes) => Ok(classes),
            Labels::Shares(shares) => panic!("these are soft: {shares}"),
        }
    }

    #[test]
    fn floats_that_are_not_one_hot_are_soft() {
        let decode = |values: Vec<f32>| {
            let array = AnyArray {
                shape: vec![2, 2],
                dtype: ElementType::F32,
                values: Values::F32(values),
            };
            LabelDecoder::new(None, None).decode(Path::new("f"), array, 0)
        };
        let soft = decode(vec![0.25, 0.75, 1.0, 0.0]).unwrap();
        let expected = ndarray::array![[0.25, 0.75], [1.0, 0.0]];
        assert_eq!(soft, Labels::Shares(expected));
        let hard = decode(vec![0.0, 1.0, 1.0, 0.0]).unwrap();
        assert_eq!(hard, Labels::Classes(vec![1, 0]));
    }

    fn texts(values: &[&str]) -> Values {
        Values::Text(values.iter().map(|&v| v.into()).collect())
    }

    #[test]
    fn numbers_of_every_form_become_indices() {
        let ints = Values::Int(vec![2, 0, -1, -100]);
        let expected = [2, 0, -1, IGNORED];
        assert_eq!(decode(&[4], ElementType::I8, ints).unwrap(), expected);
        let text = decode(&[2], ElementType::Text, texts(&["1", "-100"]));
        assert_eq!(text.unwrap(), [1, IGNORED]);
        let floats = Values::F32(vec![2.0, 0.0]);
        assert_eq!(decode(&[2, 1], ElementType::F32, floats).unwrap(), [2, 0]);
        let hot = Values::Int(vec![0, 0, 1, 1, 0, 0]);
        assert_eq!(decode(&[2, 3], ElementType::Bool, hot).unwrap(), [2, 0]);
        assert_eq!(
            decode(&[2], ElementType::Text, texts(&["1", " 2.0"])).unwrap(),
            [1, 2]
        );
    }

    #[test]
    fn halves_and_cold_rows_are_refused_with_their_row() {
        let error = decode(&[2], ElementType::F64, Values::F64(vec![1.0, 1.5])).unwrap_err();
        assert!(matches!(error, Error::LabelNotInteger { row: 11, .. }));
        let error = decode(&[1], ElementType::F64, Values::F64(vec![f64::NAN])).unwrap_err();
        assert!(matches!(error, Error::LabelNotInteger { row: 10, .. }));
        for row in [[0, 0, 0], [1, 1, 0], [2, 0, 0], [1, 0, 2]] {
            let error = decode(&[1, 3], ElementType::I64, Values::Int(row.to_vec())).unwrap_err();
            assert!(matches!(error, Error::NotOneHot { row: 10, .. }), "{row:?}");
        }
    }

    #[test]
    fn names_are_looked_up_and_typos_explained() {
        let names = ["cat".to_owned(), "dog".to_owned()];
        let decoder = LabelDecoder::new(Some(&names), Some("none"));
        let none = AnyArray::vector(ElementType::Text, texts(&["none", "cat"]));
        let decoded = decoder.decode(Path::new("f"), none, 0).unwrap();
        assert_eq!(decoded, Labels::Classes(vec![IGNORED, 0]));
        let array = |v: &[&str]| AnyArray::vector(ElementType::Text, texts(v));
        let path = Path::new("f");
        assert_eq!(
            decoder
                .decode(path, array(&["dog", "cat", "1"]), 0)
                .unwrap(),
            Labels::Classes(vec![1, 0, 1])
        );
        let error = decoder.decode(path, array(&["dgo"]), 0).unwrap_err();
        assert!(
            error.to_string().ends_with("did you mean `dog`?"),
            "{error}"
        );
    }

    #[test]
    fn names_without_a_list_of_classes_are_refused() {
        let error = decode(&[2], ElementType::Text, texts(&["1", "cat"])).unwrap_err();
        assert!(matches!(error, Error::ClassNamesNeeded { row: 11, .. }));
    }

    #[test]
    fn names_that_are_numbers_are_looked_up_as_such() {
        let names = ["20".to_owned(), "10".to_owned()];
        let decoder = LabelDecoder::new(Some(&names), None);
        let path = Path::new("f");
        let forms = [
            Values::Int(vec![10, 20]),
            Values::F32(vec![10.0, 20.0]),
            texts(&["10", "20"]),
        ];
        for values in forms {
            let array = AnyArray::vector(ElementType::I64, values);
            let decoded = decoder.decode(path, array, 0).unwrap();
            assert_eq!(decoded, Labels::Classes(vec![1, 0]));
        }
        // An index would be taken for another class.
        let array = AnyArray::vector(ElementType::I64, Values::Int(vec![1]));
        let error = decoder.decode(path, array, 0).unwrap_err();
        assert!(
            matches!(error, Error::UnknownLabel { row: 0, .. }),
            "{error}"
        );
    }
}
