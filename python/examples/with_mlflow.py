"""MLflow: a calibrator as a `pyfunc` with a signature; `mlflow.pyfunc.spark_udf` takes it to Spark. Needs `pip install mlflow`;
run by hand with MLflow 3.17 and Spark 4.3, not in the tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlflow.pyfunc
import numpy as np
import ordercal
from mlflow.models import ModelSignature
from mlflow.types.schema import Schema, TensorSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CalibratorModel(mlflow.pyfunc.PythonModel):
    """Scores in, probabilities out."""

    def load_context(self, context: mlflow.pyfunc.PythonModelContext) -> None:
        """Reads the model file of the artifact."""
        self.calibrator = ordercal.load(context.artifacts["calibrator"])

    def predict(self, context: object, model_input: np.ndarray, params: object = None) -> np.ndarray:
        """Calibrated probabilities."""
        return self.calibrator.predict_proba(np.asarray(model_input))


def log(calibrator: ordercal.Calibrator, folder: Path) -> None:
    """Writes the calibrator as an MLflow model."""
    calibrator.save(folder / "calibrator.safetensors")
    classes = calibrator.n_features_in_
    tensor = TensorSpec(np.dtype(np.float32), (-1, classes))
    mlflow.pyfunc.save_model(
        folder / "model",
        python_model=CalibratorModel(),
        artifacts={"calibrator": str(folder / "calibrator.safetensors")},
        signature=ModelSignature(inputs=Schema([tensor]), outputs=Schema([tensor])),
        pip_requirements=["ordercal"],
    )


def udf(session: SparkSession, folder: Path) -> Any:
    """The model as a function of Spark: `df.withColumn("probs", udf(session, folder)("logits"))`."""
    return mlflow.pyfunc.spark_udf(session, str(folder / "model"), result_type="array<float>", env_manager="local")
