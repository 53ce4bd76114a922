"""CAMixup in Lightning: mix in `training_step`, let the callback do the rest. Takes a few seconds.

pip install 'calmix[lightning]'
python examples/lightning_loop.py
"""

import tempfile
import warnings

import lightning.pytorch as lightning
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Subset, TensorDataset

import calmix
from calmix.integrations.lightning import MixerCallback
from calmix.integrations.torchmetrics import ECE

warnings.filterwarnings("ignore", module="lightning")


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        self.model = calmix.BatchEnsemble(network, members=4)
        self.mixer = calmix.CAMixup(num_classes=10, members=4)  # a submodule: saved in every checkpoint
        self.ece = ECE(num_classes=10, values="logits")

    def training_step(self, batch, batch_idx):
        x, y = batch
        mixed = self.mixer(x, y)
        return mixed.loss(self.model(mixed.inputs, per_member=True)).mean()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.model(x)
        self.ece(logits, y)
        self.log("val_ece", self.ece)
        return {"logits": logits, "labels": y}

    test_step = validation_step

    def configure_optimizers(self):
        groups = calmix.parameter_groups(self.model, weight_decay=2e-4)
        return torch.optim.SGD(groups, lr=0.05, momentum=0.9)


def main(seed=0):
    lightning.seed_everything(seed, verbose=False)
    pixels, digits = load_digits(return_X_y=True)
    data = TensorDataset(torch.from_numpy(pixels).float() / 16, torch.from_numpy(digits))
    train, val, test = (Subset(data, range(*ends)) for ends in ((0, 1000), (1000, 1300), (1300, 1797)))
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=15,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
            callbacks=[MixerCallback(predictions=f"{folder}/predictions")],
        )
        module = Classifier()
        trainer.fit(module, DataLoader(train, batch_size=100, shuffle=True), DataLoader(val, batch_size=100))
        trainer.test(module, DataLoader(test, batch_size=100), verbose=False)
        predictions = calmix.load_predictions(f"{folder}/predictions/test.npz")
    probs = calmix.pool(predictions.logits)
    print(predictions)
    print(f"accuracy {calmix.metrics.accuracy(probs, predictions.labels):.3f}", end="  ")
    print(f"ECE {calmix.metrics.ece(probs, predictions.labels):.3f}")
    print(f"classes mixed in the next epoch, by member: {module.mixer.active.sum(1).tolist()}")


if __name__ == "__main__":
    main()
