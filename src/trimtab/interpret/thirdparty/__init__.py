"""Rules for kinds of other projects, as scripts that come with Trimtab; customizations of users come before them."""
