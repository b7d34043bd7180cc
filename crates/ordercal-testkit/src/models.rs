//! Models for tests: fitted ones, and ones with random, extreme parameters.

use ordercal::models::{
    ChainModel, DiagModel, EtsModel, EtsParts, Features, LinearModel, LinearParts, MixtureModel,
    NetworkModel, NetworkParts, OrderedModel, TsModel, Wiring,
};
use ordercal::{InputKind, Method, Model, Rng};

use crate::rows::overconfident_data;

/// Every method, projected onto the order of the scores if it is not order-preserving.
pub fn order_preserving_methods() -> Vec<Method> {
    Method::all().into_iter().map(Method::keep_order).collect()
}

/// A method fitted to 300 rows.
pub fn fit(method: &Method, classes: usize, seed: u64) -> Model {
    let data = overconfident_data(300, classes, seed);
    let fitted = method.fit(&data);
    fitted.expect("ordinary data can be fitted").model
}

/// Every method of [`order_preserving_methods`] fitted to 300 rows.
pub fn fitted(classes: usize, seed: u64) -> Vec<Model> {
    let methods = order_preserving_methods().into_iter();
    methods.map(|method| fit(&method, classes, seed)).collect()
}

/// Order-preserving models with extreme parameters: very steep, flat and irregular ones.
pub fn extreme(classes: usize, rng: &mut Rng) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    for power in [-30, -3, 0, 3, 30] {
        let beta = 10_f64.powi(power) * (0.5 + rng.uniform());
        let ts = TsModel::new(classes, beta);
        models.push(ts.expect("a positive number").into());
    }
    for input in [InputKind::Raw, InputKind::LogSoftmax, InputKind::Centred] {
        let steepness = 10.0 * rng.uniform();
        let slopes = (0..50).map(|_| (steepness * rng.normal()).exp()).collect();
        let diag = DiagModel::from_slopes(classes, input, (-20.0, 5.0), slopes);
        models.push(diag.expect("positive slopes").into());
        for wiring in [Wiring::SortedToGaps, Wiring::ClassesToGaps] {
            models.push(random_network(classes, wiring, input, rng).into());
        }
    }
    for weights in [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.3, 1e-12, 0.7 - 1e-12]] {
        let beta = 10_f64.powf(6.0 * rng.uniform() - 3.0);
        let parts = EtsParts {
            classes,
            beta,
            weights,
        };
        models.push(
            EtsModel::from_parts(parts)
                .expect("weights that sum to 1")
                .into(),
        );
    }
    for share in [None, Some(1e-4)] {
        let beta = 10_f64.powf(6.0 * rng.uniform() - 3.0);
        let inner = random_linear(classes, share, rng);
        let ordered = OrderedModel::new(inner.into(), beta);
        models.push(ordered.expect("a free model").into());
    }
    let mut draw = || models[rng.below(models.len())].clone();
    let pairs: Vec<(Model, Model)> = (0..4).map(|_| (draw(), draw())).collect();
    for (first, then) in pairs {
        let weight = 10_f64.powf(-6.0 * rng.uniform());
        let members = vec![(weight, first.clone()), (1.0 - weight, then.clone())];
        let mixture = MixtureModel::new(members);
        models.push(mixture.expect("positive weights").into());
        let chain = ChainModel::new(first, then);
        models.push(chain.expect("the same classes").into());
    }
    models
}

/// A linear map with random weights of random size, on log-probabilities mixed with the uniform distribution of weight
/// `share`, or on raw scores.
pub fn random_linear(classes: usize, share: Option<f64>, rng: &mut Rng) -> LinearModel {
    let beta = 10_f64.powf(2.0 * rng.uniform() - 1.0);
    let size = 10_f64.powf(3.0 * rng.uniform() - 2.0);
    // A matrix for a thousand classes is slow and tests nothing that a smaller one does not.
    let weights = if classes <= 100 {
        classes * classes
    } else {
        classes
    };
    let mut draw = |count: usize| -> Vec<f32> {
        let values = (0..count).map(|_| (rng.normal() * size) as f32);
        values.collect()
    };
    let parts = LinearParts {
        classes,
        features: match share {
            Some(share) => Features::Mixed { beta, share },
            None => Features::Tempered {
                input: InputKind::Raw,
                beta,
                range: (-1e3, 1e3),
            },
        },
        deviation: draw(weights),
        bias: draw(classes),
    };
    LinearModel::from_parts(parts).expect("parts that fit together")
}

/// A network with random weights of random size.
pub fn random_network(
    classes: usize,
    wiring: Wiring,
    input: InputKind,
    rng: &mut Rng,
) -> NetworkModel {
    let hidden = vec![1 + rng.below(8); 1 + rng.below(2)];
    // Every other one reads the top scores only.
    let gaps = wiring != Wiring::ClassesToLogits;
    let top = (classes > 2 && gaps && rng.below(2) == 0).then(|| 1 + rng.below(classes - 2));
    let size = 10_f64.powf(2.0 * rng.uniform() - 1.5);
    let mut parts = NetworkParts {
        wiring,
        classes,
        top,
        hidden,
        input,
        scale: 0.5 + 5.0 * rng.uniform(),
        range: (-8.0, 8.0),
        beta: (rng.normal() * 3.0).exp(),
        params: Vec::new(),
    };
    let (inputs, outputs) = parts.ends();
    let widths = [&[inputs][..], &parts.hidden, &[outputs]].concat();
    let count = widths.windows(2).map(|w| (w[0] + 1) * w[1]).sum();
    parts.params = (0..count).map(|_| (rng.normal() * size) as f32).collect();
    NetworkModel::from_parts(parts).expect("parts that fit together")
}
