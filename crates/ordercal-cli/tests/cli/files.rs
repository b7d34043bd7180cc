//! Small files to feed the program, right and wrong ones.

/// A numpy file with a header as given and any bytes behind it.
pub fn npy_raw(descr: &str, shape: &str, body: &[u8]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}").into_bytes();
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(b' ');
    }
    header.push(b'\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    file.extend(header);
    file.extend(body);
    file
}

/// An N×K matrix of 32-bit floats.
pub fn npy_matrix(rows: &[&[f32]]) -> Vec<u8> {
    let body: Vec<u8> = rows
        .iter()
        .flat_map(|row| row.iter().flat_map(|v| v.to_le_bytes()))
        .collect();
    let shape = format!("({}, {})", rows.len(), rows.first().map_or(0, |r| r.len()));
    npy_raw("<f4", &shape, &body)
}

/// A vector of 64-bit integers.
pub fn npy_labels(labels: &[i64]) -> Vec<u8> {
    let body: Vec<u8> = labels.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy_raw("<i8", &format!("({},)", labels.len()), &body)
}

/// An overconfident classifier's scores of three classes as a csv table.
pub fn csv(rows: usize) -> String {
    let mut text = String::from("label,logit_0,logit_1,logit_2\n");
    let mut state = 12345_u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 31)
    };
    for row in 0..rows {
        let right = row % 3;
        // One label in four is another class than the scores say.
        let label = if next() < 0.25 {
            (right + 1) % 3
        } else {
            right
        };
        let mut scores = [0.0; 3];
        for (class, score) in scores.iter_mut().enumerate() {
            *score = 2.0 * next() + if class == right { 5.0 } else { 0.0 };
        }
        text.push_str(&format!(
            "{label},{:.4},{:.4},{:.4}\n",
            scores[0], scores[1], scores[2]
        ));
    }
    text
}

/// The demo's 26-class bundle, with splits `calib` and `test`.
pub const BUNDLE: &[u8] = include_bytes!("../../demo/letters.npz");

/// The demo's 10-class bundle, with the same splits.
pub const CLOTHES: &[u8] = include_bytes!("../../demo/fashion_mnist.npz");

/// A safetensors bundle of three classes with the splits `calib` and `test`.
pub fn three_classes(rows: usize) -> Vec<u8> {
    halves(&csv(2 * rows))
}

/// A safetensors bundle of the rows of a csv table of three classes: the first half as `calib`, the others as `test`.
pub fn halves(text: &str) -> Vec<u8> {
    let parsed: Vec<Vec<f32>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|v| v.parse().unwrap()).collect())
        .collect();
    let rows = parsed.len() / 2;
    let mut header = String::new();
    let mut body: Vec<u8> = Vec::new();
    for (split, part) in [("calib", &parsed[..rows]), ("test", &parsed[rows..])] {
        let mut array = |name: &str, dtype: &str, shape: String, bytes: Vec<u8>| {
            let (from, to) = (body.len(), body.len() + bytes.len());
            header.push_str(&format!(
                "\"{split}_{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}},"
            ));
            body.extend(bytes);
        };
        let logits = part
            .iter()
            .flat_map(|row| row[1..].iter().flat_map(|v| v.to_le_bytes()));
        array("logits", "F32", format!("[{rows},3]"), logits.collect());
        let labels = part.iter().flat_map(|row| (row[0] as i64).to_le_bytes());
        array("labels", "I64", format!("[{rows}]"), labels.collect());
    }
    let header = format!("{{{}}}", header.trim_end_matches(','));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.into_bytes());
    file.extend(body);
    file
}
