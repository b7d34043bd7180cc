//! The inner loops, each by itself.
//!
//! `cargo bench --bench kernels` runs all of them; `-- NAME` selects those whose name contains NAME. `cargo test --bench
//! kernels` runs each once.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ordercal::rank::Sorter;
use ordercal::{Dataset, Diag, Method, Oi, Rng, ScoreKind, Ts, kernels};
use ordercal_testkit::rows::overconfident_data;

const CLASSES: [usize; 3] = [10, 100, 1000];

fn random(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.normal() as f32 * 4.0).collect()
}

fn exponentials(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("exponentials");
    let narrow = random(&mut Rng::new(1), 4096);
    let wide: Vec<f64> = narrow.iter().map(|&v| f64::from(v)).collect();
    group.throughput(Throughput::Elements(4096));
    let mut target = narrow.clone();
    group.bench_function("32 bits", |bench| {
        bench.iter(|| {
            target.copy_from_slice(&narrow);
            kernels::exponentials_f32(black_box(&mut target));
        });
    });
    let mut target = wide.clone();
    group.bench_function("64 bits", |bench| {
        bench.iter(|| {
            target.copy_from_slice(&wide);
            kernels::exponentials_f64(black_box(&mut target));
        });
    });
}

fn rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("row");
    for classes in CLASSES {
        group.throughput(Throughput::Elements(classes as u64));
        let scores = random(&mut Rng::new(2), classes);
        let wide: Vec<f64> = scores.iter().map(|&v| f64::from(v)).collect();
        let mut target = wide.clone();
        group.bench_function(BenchmarkId::new("softmax", classes), |bench| {
            bench.iter(|| {
                target.copy_from_slice(&wide);
                kernels::softmax(black_box(&mut target));
            });
        });
        let mut sorter = Sorter::new(classes);
        group.bench_function(BenchmarkId::new("sort", classes), |bench| {
            bench.iter(|| black_box(sorter.sort(black_box(&scores)))[0]);
        });
        let mut sorted = scores.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let mut z = scores.clone();
        group.bench_function(BenchmarkId::new("head", classes), |bench| {
            bench.iter(|| {
                z.copy_from_slice(&scores);
                kernels::sorted_head(black_box(&mut z), &sorted, 1)
            });
        });
    }
}

fn products(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("product");
    for (rows, inner, columns) in [(128, 10, 10), (128, 100, 100), (128, 1000, 150)] {
        let left = random(&mut Rng::new(3), rows * inner);
        let right = random(&mut Rng::new(4), inner * columns);
        let mut target = vec![0.0; rows * columns];
        group.throughput(Throughput::Elements((2 * rows * inner * columns) as u64));
        let name = format!("{rows}×{inner}×{columns}");
        group.bench_function(name, |bench| {
            bench.iter(|| {
                kernels::multiply(
                    black_box(&mut target),
                    &left,
                    &right,
                    (rows, inner, columns),
                );
            });
        });
    }
}

fn passes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pass");
    for (rows, classes) in [(5000, 10), (1000, 100), (200, 1000)] {
        let data = overconfident_data(rows, classes, 5);
        let size = format!("{rows}×{classes}");
        group.throughput(Throughput::Elements((rows * classes) as u64));
        let mut pass = kernels::temperature_pass(&data);
        group.bench_function(BenchmarkId::new("ts", &size), |bench| {
            bench.iter(&mut pass);
        });
        let mut pass = kernels::diag_pass(&data);
        group.bench_function(BenchmarkId::new("diag", &size), |bench| {
            bench.iter(&mut pass);
        });
    }
}

fn apply(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("apply");
    for (rows, classes) in [(5000, 10), (500, 1000)] {
        let data: Dataset<'_> = overconfident_data(rows, classes, 6);
        group.throughput(Throughput::Elements((rows * classes) as u64));
        let methods: [Method; 3] = [
            Ts::default().into(),
            Diag::default().into(),
            Oi::default().with_hidden(&[20]).into(),
        ];
        for method in methods {
            let model = method.fit(&data).expect("ordinary data").model;
            let name = BenchmarkId::new(method.key(), format!("{rows}×{classes}"));
            group.bench_function(name, |bench| {
                bench.iter(|| model.apply::<f32>(data.scores(), ScoreKind::Probs));
            });
        }
    }
}

criterion_group!(benches, exponentials, rows, products, passes, apply);
criterion_main!(benches);
