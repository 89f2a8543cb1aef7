"""Two optimisers, several critic steps per generator step, image grids, no test set."""

import torch
from torch import nn
from torch.nn.functional import relu

from shared.training.module import PaperModule


class Gan(PaperModule):
    automatic_optimization = False

    def __init__(self, *, n_dis: int) -> None:
        super().__init__()
        self.n_dis = n_dis
        self.generator = nn.Linear(8, 64)
        self.critic = nn.Linear(64, 1)

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.generator.parameters(), lr=1e-3),
            torch.optim.Adam(self.critic.parameters(), lr=1e-3),
        )

    def training_step(self, batch, batch_index):
        images, _ = batch
        optimizer_g, optimizer_d = self.optimizers()
        fake = self.generator(torch.randn(len(images), 8))
        loss_d = (
            relu(1 - self.critic(images.flatten(1))).mean()
            + relu(1 + self.critic(fake.detach())).mean()
        )
        optimizer_d.zero_grad()
        self.manual_backward(loss_d)
        optimizer_d.step()
        self.record("critic_loss", loss_d, "nats", step=batch_index + 1)
        if (batch_index + 1) % self.n_dis == 0:
            loss_g = -self.critic(fake).mean()
            optimizer_g.zero_grad()
            self.manual_backward(loss_g)
            optimizer_g.step()
        return {"loss": loss_d}

    def on_train_end(self):
        samples = self.generator(torch.randn(4, 8)).view(2, 2, 8, 8)
        grid = samples.permute(0, 2, 1, 3).reshape(16, 16).detach()
        self.run.save_image("samples", (grid.clamp(0, 1) * 255).byte().numpy())
