select body from document where id = :id;
