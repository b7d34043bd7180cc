//! The table of methods, from which all other lists of methods are derived.

/// Calls the macro `$use` with the table of methods: the folder of the family, the file, the type, the key, and whether every
/// model keeps the ranking of every row (`kept`) or not (`free`).
///
/// The methods under `combine` are built from others; they are in the module of that name.
macro_rules! for_each_method {
    ($use:ident) => {
        $use! {
            scaling {
                uncalibrated::Uncalibrated "uncalibrated" kept;
                ts::Ts "ts" kept;
                ets::Ets "ets" kept;
                vs::Vs "vs" free;
                ms_odir::MsOdir "ms-odir" free;
                dir_odir::DirOdir "dir-odir" free;
                svs::Svs "svs" free;
                sms::Sms "sms" free;
            }
            one_vs_rest {
                platt::Platt "platt" free;
                beta::Beta "beta" free;
                isotonic::Isotonic "isotonic" free;
                histogram::Histogram "histogram" free;
                bbq::Bbq "bbq" free;
            }
            network {
                diag::Diag "diag" kept;
                oi::Oi "oi" kept;
                op::Op "op" kept;
                unconstrained::Unconstrained "unconstrained" free;
            }
            + combine {
                Auto "auto" kept;
                AutoFree "auto-free" free;
            }
        }
    };
}

pub(crate) use for_each_method;
