//! Models for other programs.

use crate::files::BUNDLE;
use crate::harness::Folder;

#[test]
fn export_writes_a_graph_of_any_model() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    place
        .run("fit b.npz#calib --method ts -o m.safetensors")
        .ok();
    let found = place
        .run("export m.safetensors -o m.onnx --json")
        .ok()
        .json();
    assert_eq!(found["method"], "ts");
    assert_eq!(found["classes"], 26);
    let words = place
        .run("export m.safetensors --kind probs -o p.onnx")
        .ok()
        .stdout;
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("probabilities and logits out"), "{words}");
    place
        .run("export m.safetensors --input-type f16 -o h.onnx")
        .ok();
    let sizes = ["m.onnx", "h.onnx"].map(|name| std::fs::read(place.path(name)).unwrap().len());
    assert!(sizes[1] > sizes[0], "a cast more: {sizes:?}");
    let refused = place.run("export m.safetensors --input-type f8 -o n.onnx");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("f32, f16"), "{}", refused.stderr);

    place
        .run("fit b.npz#calib --method isotonic -o i.safetensors")
        .ok();
    place.run("export i.safetensors -o i.onnx").ok();
    assert!(place.names().contains(&"i.onnx".to_owned()));
}
